"""Lets a splittable DoFn process one restriction, for as long as it may, and not much longer.

A split interrupts the DoFn, which notices that at its next claim. The gate before its claims splits
when the allowance is spent. If no claim comes, the watch splits, from another thread. A DoFn that
claims nothing cannot be interrupted at all; the watch warns and names it.
"""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from sparkdrain.harness.claims import Allowance

_LOGGER = logging.getLogger(__name__)


class Interruption:
    """Processes restrictions, one at a time, and collects what splits leave over.

    Args:
        operation: the ``ProcessRestrictions`` in question.
    """

    def __init__(self, operation: Any) -> None:
        self._operation = operation
        # Never waited for with a lock of Beam's in hand: a split takes those, in its own order.
        self._lock = threading.Lock()
        self._running = False
        self._left: list[Any] = []

    def process(self, process: Callable[[], None], allowance: Allowance) -> list[Any]:
        """Call ``process``, which works on one restriction, with so much to claim.

        Returns:
            What splits have left over, as Beam's ``SplitResultResidual``.
        """
        gate = self._operation.claims
        with self._lock:
            self._left = []
            self._running = True
        gate.open(allowance, self._interrupt_here)
        try:
            process()
        finally:
            gate.close()
            # A split that has begun is over before the lock is free.
            with self._lock:
                self._running = False
        return self._left

    def _interrupt_here(self) -> bool:
        """From the processing thread, before a claim, which has a lock of Beam's."""
        if not self._lock.acquire(blocking=False):
            return False  # the watch is at it
        try:
            return self._split()
        finally:
            self._lock.release()

    def interrupt(self) -> bool:
        """Split what is being processed, if anything is and it can be; from any other thread."""
        with self._lock:
            return self._running and self._operation.claims.may_split and self._split()

    def _split(self) -> bool:
        if self._left:
            return True  # by the other thread; what it kept is to be finished
        for fraction in self._operation.claims.fractions:
            split = self._operation.try_split(fraction)
            if split:
                self._left += [residual for _, residual in split[1]]
                return True
        return False


class Watch:
    """Looks, from a thread of its own, whether a restriction takes too long.

    Args:
        name: of the transform.
        seconds: how long one may take before it is interrupted.
        patience: seconds after which a warning is logged, and again each time that it has taken
            twice as long.
        interrupt: see ``Interruption.interrupt``.
        at_work: the step whose code runs, which may be one behind the transform.
    """

    def __init__(
        self,
        name: str,
        seconds: float,
        patience: float,
        interrupt: Callable[[], bool],
        at_work: Callable[[], str] = str,
    ) -> None:
        self._at_work = at_work
        self._name = name
        self._seconds = max(seconds, 0.005)
        self._patience = patience
        self._interrupt = interrupt
        self._over = threading.Event()
        self._began: float | None = None
        self._warn_at = patience
        self._thread: threading.Thread | None = None

    def begin(self) -> None:
        """A restriction begins to be processed."""
        self._warn_at = self._patience
        self._began = time.monotonic()
        if self._thread is None:
            thread = threading.Thread(target=self._look, name="restrictions", daemon=True)
            thread.start()
            self._thread = thread

    def end(self) -> None:
        """It has come back."""
        self._began = None

    def _look(self) -> None:
        while not self._over.wait(self._seconds):
            began = self._began
            if began is None:
                continue
            taken = time.monotonic() - began
            if taken >= self._warn_at:
                self._warn_at *= 2
                _LOGGER.warning(
                    "%s has been processing one restriction for %.1f seconds, and the step at "
                    "work is %r. If that is the same step, it claims nothing, or what it reads "
                    "cannot be split: call tracker.try_claim more often, or "
                    "tracker.defer_remainder. The round, and everything that waits for its end, "
                    "lasts as long.",
                    self._name,
                    taken,
                    self._at_work() or self._name,
                )
            if taken >= self._seconds:
                self._interrupt()

    def __enter__(self) -> Watch:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._over.set()
        if self._thread is not None:
            self._thread.join()
