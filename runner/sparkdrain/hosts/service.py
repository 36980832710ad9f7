"""What a host runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class Abandoned(BaseException):
    """Raised by ``push`` and by the records of a call whose task is gone: give the call up."""

    _tagged_with_step = True
    """User code did not raise it: Beam raises it again as it is, and names no step."""


class Stopped(Abandoned):
    """Raised anywhere in a call when the host is to end: only ``close`` will follow."""


class Service(Protocol):
    """Made once in a host, in whose main thread it is called; it may keep state between calls."""

    def run(
        self,
        request: bytes,
        records: Iterator[bytes],
        push: Callable[[tuple[int, bytes]], None],
    ) -> None:
        """Serve one call: take ``records``, push (partition, record) pairs.

        ``records`` and ``push`` are for the calling thread. Both raise ``Abandoned`` when no
        task waits for the outcome any more; the next call may be a repetition of this one.
        """

    def look(self) -> bytes:
        """What ``run`` is doing now, for whom it concerns; called in another thread."""

    def close(self) -> None:
        """Let go of everything; no call follows. What raises here is only logged."""
