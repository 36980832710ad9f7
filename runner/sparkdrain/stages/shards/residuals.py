"""Work that a splittable DoFn has put off: done as soon as its time has come."""

from __future__ import annotations

import heapq
import itertools
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from sparkdrain.harness.harness import Harness, Remainder


class Residuals:
    """The deferred restrictions of one stage in one slot.

    A restriction is resumed in a bundle of its own, as in any runner: the DoFns have finished the
    one before, and its finalizers have run.

    Args:
        sleep: waits for so many of them.
    """

    def __init__(
        self,
        harness: Harness,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._harness = harness
        self._clock = clock
        self._sleep = sleep
        self._waiting: list[tuple[float, int, Remainder]] = []
        self._numbers = itertools.count()

    def resume_due(self) -> None:
        """Process what need not wait, until nothing is left of it."""
        self._collect()
        while self._waiting and self._waiting[0][0] <= self._clock():
            self._resume()

    def resume_all(self) -> None:
        """Process everything, waiting where a restriction asked to be resumed later."""
        self._collect()
        while self._waiting:
            self._sleep(max(0.0, self._waiting[0][0] - self._clock()))
            self._resume()

    def _collect(self) -> None:
        now = None
        for rest in self._harness.take_deferred():
            now = self._clock() if now is None else now
            heapq.heappush(self._waiting, (now + rest.delay / 1e6, next(self._numbers), rest))

    def _resume(self) -> None:
        """One bundle: the first restriction in line and all whose time has come as well.

        Nothing of a bounded job is durable before its end. So finalizers run as late as possible
        without keeping those waiting that depend on them: between two bundles.
        """
        now, harness = max(self._clock(), self._waiting[0][0]), self._harness
        harness.finish()
        harness.finalize()
        harness.start()
        while self._waiting and self._waiting[0][0] <= now:
            harness.resume(heapq.heappop(self._waiting)[2])
        self._collect()
