"""Processing time: an argument of everything that waits or asks what time it is."""

from __future__ import annotations

import time
from typing import Protocol


class Interrupt(Protocol):
    """Ends a wait; a ``CancelToken`` is one."""

    def is_cancelled(self) -> bool:
        """Whether waiting is to end."""

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until waiting is to end, or for that long; answers ``is_cancelled``."""


class Clock(Protocol):
    """Tells processing time, and waits for it."""

    def now(self) -> int:
        """Microseconds since 1970; never less than it said before."""

    def wait_until(self, then: int | None, interrupt: Interrupt) -> None:
        """Return when it is ``then`` (None: never), or ``interrupt`` ends the wait."""


class WallClock:
    """The machine's. If that is set back, time stands still for as long."""

    def __init__(self) -> None:
        self._last = 0

    def now(self) -> int:
        """See ``Clock``."""
        self._last = max(self._last, time.time_ns() // 1000)
        return self._last

    def wait_until(self, then: int | None, interrupt: Interrupt) -> None:
        """See ``Clock``."""
        if then is None:
            interrupt.wait()
        while then is not None and (left := then - self.now()) > 0 and not interrupt.is_cancelled():
            interrupt.wait(min(left / 1e6, 1.0))
