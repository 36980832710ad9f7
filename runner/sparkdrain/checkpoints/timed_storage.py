"""A storage that answers within a time, or is said not to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

from typing_extensions import override

from sparkdrain.checkpoints.reasons import tried_again
from sparkdrain.checkpoints.storage import Storage
from sparkdrain.errors import CheckpointFailed
from sparkdrain.in_time import InTime, NoAnswer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path


T = TypeVar("T")
ANSWER_SECONDS: Final = 60.0
"""How long a driver waits for one answer of the storage."""


class TimedStorage(Storage):
    """A ``Storage`` for drivers, whose files are small: every call ends in time.

    A call that was given up may still take effect later, as with any storage that is far away. See
    ``InTime``.

    Args:
        seconds: how long a call may take.
    """

    def __init__(self, storage: Storage, seconds: float = ANSWER_SECONDS) -> None:
        self._storage = storage
        self._calls = InTime(seconds, "checkpoints")

    @override
    def list(self, folder: str) -> dict[str, int]:
        return self._in_time(folder, lambda: self._storage.list(folder))

    def chunks(self, path: str) -> Iterator[bytes]:
        """See ``Storage``; all in memory."""
        yield from self._in_time(path, lambda: tuple(self._storage.chunks(path)))

    @override
    def link(self, path: str, to: Path) -> bool:
        return self._in_time(path, lambda: self._storage.link(path, to))

    def write(self, path: str, chunks: Iterable[bytes]) -> None:
        """See ``Storage``; all in memory."""
        data = tuple(chunks)
        self._in_time(path, lambda: self._storage.write(path, data))

    @override
    def publish(self, path: str, data: bytes) -> None:
        self._in_time(path, lambda: self._storage.publish(path, data))

    @override
    def delete(self, paths: Sequence[str]) -> None:
        self._in_time(paths[0], lambda: self._storage.delete(paths))

    def _in_time(self, path: str, call: Callable[[], T]) -> T:
        try:
            return self._calls.call(f"the storage of {path}", call)
        except NoAnswer as error:
            message = f"{error}{tried_again(error.thread)}"
            raise CheckpointFailed(message) from None
