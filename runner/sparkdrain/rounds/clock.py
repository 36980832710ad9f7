"""Processing time: an argument of everything that waits or asks what time it is."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from sparkdrain.types import CancelToken


class Clock(Protocol):
    """Tells processing time, and waits for it."""

    def now(self) -> int:
        """Microseconds since 1970; never less than it said before."""

    def wait_until(self, then: int | None, cancel: CancelToken) -> None:
        """Return when it is ``then`` (None: never), or somebody has cancelled the job."""


class WallClock:
    """The machine's. If that is set back, time stands still for as long."""

    def __init__(self) -> None:
        self._last = 0

    def now(self) -> int:
        """See ``Clock``."""
        self._last = max(self._last, time.time_ns() // 1000)
        return self._last

    def wait_until(self, then: int | None, cancel: CancelToken) -> None:
        """See ``Clock``."""
        if then is None:
            cancel.wait()
        while then is not None and (left := then - self.now()) > 0 and not cancel.is_cancelled():
            cancel.wait(min(left / 1e6, 1.0))
