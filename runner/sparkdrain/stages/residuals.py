"""Work that a splittable DoFn has put off: done as soon as its time has come."""

from __future__ import annotations

import heapq
import itertools
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from sparkdrain.harness.bundle import StageBundle


class Residuals:
    """The deferred restrictions of one stage in one slot.

    A restriction is resumed in a bundle of its own, as in any runner: the DoFns have finished the
    one before, and its finalizers have run.

    Args:
        bundle: the bundle whose restrictions these are.
        clock: seconds that pass.
        sleep: waits for so many of them.
    """

    def __init__(
        self,
        bundle: StageBundle,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._bundle = bundle
        self._clock = clock
        self._sleep = sleep
        self._waiting: list[tuple[float, int, Any, Any]] = []
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
        for operation, (element, _watermark, delay) in self._bundle.take_residuals():
            now = self._clock() if now is None else now
            at = now + delay.micros / 1e6 if delay else now
            heapq.heappush(self._waiting, (at, next(self._numbers), operation, element))

    def _resume(self) -> None:
        """One bundle: the first restriction in line and all whose time has come as well."""
        now = max(self._clock(), self._waiting[0][0])
        self._bundle.restart()
        while self._waiting and self._waiting[0][0] <= now:
            _, _, operation, element = heapq.heappop(self._waiting)
            operation.process(element)
        self._collect()
