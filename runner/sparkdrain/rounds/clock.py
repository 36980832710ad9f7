"""Processing time: an argument of everything that waits or asks what time it is."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol

from typing_extensions import override

if TYPE_CHECKING:
    from collections.abc import Callable

_LOGGER = logging.getLogger(__name__)
_TOLD: Final = 60 * 1_000_000
"""Microseconds by which the machine's clock may change before the log tells of it."""


class Interrupt(Protocol):
    """Ends a wait; a ``CancelToken`` is one, and an ``Event``."""

    def wait(self, seconds: float | None = None, /) -> bool:
        """Wait until waiting is to end, or for that long; whether it is to end."""


class Clock(Protocol):
    """Tells processing time, and waits for it."""

    def now(self) -> int:
        """Microseconds since 1970; never less than it said before."""

    def wait_until(self, then: int | None, interrupt: Interrupt) -> None:
        """Return when it is ``then`` (None: never), or ``interrupt`` ends the wait."""


@dataclass(slots=True)
class WallClock(Clock):
    """The machine's clock, which is followed forward only.

    Time goes on at the pace of the machine's monotonic clock. If the wall clock is set back, time
    goes on as if it had not been. If it is set forward, or the machine has slept, time follows it.
    A change by a minute or more is told in the log, once.

    Attributes:
        wall: microseconds since 1970; a clock that can be set.
        monotonic: microseconds since some time; a clock that cannot be set.
    """

    wall: Callable[[], int] = lambda: time.time_ns() // 1000
    monotonic: Callable[[], int] = lambda: time.monotonic_ns() // 1000
    _offset: int | None = field(default=None, init=False)
    _seen: int = field(default=0, init=False)

    @override
    def now(self) -> int:
        monotonic = self.monotonic()
        offset = self.wall() - monotonic
        if self._offset is None:
            self._offset = self._seen = offset
        elif abs(offset - self._seen) >= _TOLD:
            self._tell(offset - self._seen)
            self._seen = offset
        self._offset = max(self._offset, offset)
        return monotonic + self._offset

    def _tell(self, change: int) -> None:
        ahead = "forward" if change > 0 else "back"
        effect = (
            "Processing time follows it: timers of processing time are due that much sooner."
            if change > 0
            else "Processing time goes on as before and is ahead of the clock now; nothing stops."
        )
        _LOGGER.warning(
            "The clock of this machine was set %s by %.0f s, or the machine has slept. %s If this "
            "happens again, look at the machine's time service (NTP).",
            ahead,
            abs(change) / 1e6,
            effect,
        )

    @override
    def wait_until(self, then: int | None, interrupt: Interrupt) -> None:
        if then is None:
            interrupt.wait()
        while then is not None and (left := then - self.now()) > 0:
            if interrupt.wait(min(left / 1e6, 1.0)):
                return
