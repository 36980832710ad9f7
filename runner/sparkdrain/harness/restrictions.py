"""Has a splittable DoFn of this process work on restrictions, one at a time.

It works on each for as long as it may, and not much longer. A split interrupts the DoFn, which
notices that at its next claim. The gate before its claims splits when the allowance is spent. If no
claim comes, another thread splits.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from typing_extensions import override

from sparkdrain.harness.beam import common
from sparkdrain.harness.harness import Processed, Remainder, RestrictionInlet
from sparkdrain.harness.operations import counted
from sparkdrain.notes import add_note

if TYPE_CHECKING:
    from collections.abc import Callable

    from sparkdrain.graph.plan import TransformId
    from sparkdrain.harness.limits import Allowance


def remainder(transform: TransformId, residual: Any) -> Remainder:
    """What Beam's ``SplitResultResidual`` says."""
    watermark, delay = residual.current_watermark, residual.deferred_timestamp
    return Remainder(
        transform,
        residual.residual_value,
        None if watermark is None else watermark.micros,
        delay.micros if delay else 0,
    )


class OperatedRestrictions(RestrictionInlet):
    """Processes restrictions by Beam's operation.

    Args:
        transform: the DoFn's.
        operation: a ``ProcessRestrictions``.
        feed: takes restrictions that were never processed before.
        take_deferred: see ``Harness.take_deferred``.
    """

    def __init__(
        self,
        transform: TransformId,
        operation: Any,
        dofn: Any,
        feed: Callable[[list[Any]], None],
        take_deferred: Callable[[], list[Remainder]],
    ) -> None:
        # An error of ``truncate`` names the step by this.
        self.name_context = operation.name_context
        self._transform = transform
        self._operation = operation
        self._dofn = dofn
        self._feed = feed
        self._take_deferred = take_deferred
        self._provider: Any = None
        # Never waited for with a lock of Beam's in hand: a split takes those, in its own order.
        self._lock = threading.Lock()
        self._running = False
        self._left: list[Any] = []

    @property
    @override
    def step(self) -> str:
        return str(self.name_context.step_name)

    @property
    @override
    def by_window(self) -> bool:
        return bool(self._operation.by_window)

    @override
    def process(self, element: Any, allowance: Allowance, *, started: bool) -> Processed:
        before = self._made()
        gate = self._operation.claims
        with self._lock:
            self._left = []
            self._running = True
        gate.open(allowance, self._interrupt_here)
        try:
            if started:
                self._operation.process(element)
            else:
                self._feed([element])
        finally:
            gate.close()
            # A split that has begun is over before the lock is free.
            with self._lock:
                self._running = False
        return Processed(
            gate.claimed,
            self._made() - before,
            [remainder(self._transform, each) for each in self._left],
            self._take_deferred(),
        )

    def _made(self) -> int:
        """How many elements the DoFn has made in its life."""
        return sum(counted(self._operation))

    @override
    def interrupt(self) -> bool:
        with self._lock:
            return self._running and self._operation.claims.may_split and self._split()

    def _interrupt_here(self) -> bool:
        """Interrupt in the processing thread before a claim, under the lock that Beam has."""
        if not self._lock.acquire(blocking=False):
            return False  # the watch is at it
        try:
            return self._split()
        finally:
            self._lock.release()

    def _split(self) -> bool:
        if self._left:
            return True  # by the other thread; what it kept is to be finished
        for fraction in self._operation.claims.fractions:
            split = self._operation.try_split(fraction)
            if split:
                self._left += [residual for _, residual in split[1]]
                return True
        return False

    @override
    def truncate(self, element: Any) -> Any | None:
        # By default a bounded restriction is kept whole, and of an unbounded one nothing. Only
        # None means nothing: a restriction that is false is one all the same.
        if self._provider is None:
            self._provider = common.DoFnSignature(self._dofn).get_restriction_provider()
        (value, (restriction, estimator_state)), _ = element.value
        try:
            left = self._provider.truncate(value, restriction)
            if left is None:
                return None
            size = self._provider.restriction_size(value, left)
        except Exception as error:
            note = f"while truncating {restriction!r} of {value!r}, to drain the job"
            add_note(error, note)
            raise
        if size < 0:
            message = (
                f"Expected size >= 0 but received {size} for {left!r}, a truncated restriction."
            )
            raise ValueError(message)
        return element.with_value(((value, (left, estimator_state)), size))
