"""Lets a splittable DoFn process one restriction, for as long as it may, and not much longer.

A split interrupts the DoFn, which notices that at its next claim. The gate before its claims splits
when the allowance is spent. If no claim comes, another thread splits.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from sparkdrain.harness.limits import Allowance


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
        """Interrupt in the processing thread before a claim, under the lock that Beam has."""
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
