"""Has a splittable DoFn of this process work on restrictions, one at a time.

It works on each for as long as it may, and not much longer. A split interrupts the DoFn, which
notices that at its next claim. The gate before its claims splits when the allowance is spent: what
was claimed stays, and the rest is left over. So the claim fails, as at the end of any restriction.
If no claim comes, another thread splits. Without an allowance (in batch) claims cost what they
always do.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Final

from apache_beam.io.iobase import _SDFBoundedSourceRestrictionTracker as BoundedSourceTracker
from apache_beam.transforms.core import DoFn, RestrictionProvider, get_function_arguments
from typing_extensions import override

from sparkdrain.harness.beam import common, operations
from sparkdrain.harness.harness import Processed, Remainder, RestrictionInlet
from sparkdrain.harness.operations import counted
from sparkdrain.notes import add_note

if TYPE_CHECKING:
    from collections.abc import Callable

    from sparkdrain.graph.plan import TransformId
    from sparkdrain.harness.compiled.chain import Emission
    from sparkdrain.harness.limits import Allowance

# Of what is left, how much to keep: 0 is a checkpoint. A bounded source refuses a split at what
# it has claimed already, so it may keep a little more.
_CHECKPOINT: Final[tuple[float, ...]] = (0.0,)
_NEARLY: Final[tuple[float, ...]] = (0.0, 1e-6, 1e-4, 1e-2, 0.1)
_MOST_PATIENCE: Final = 1024
_ENOUGH: Final = 1 << 62


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


class ProcessRestrictions(operations.SdfProcessSizedElements):
    """Beam's; its frame on the stack tells the step in an error, which Beam does not do here."""

    claims: ClaimGate
    by_window: bool
    """Whether an element is processed once for each of its windows."""
    emission: Emission | None = None
    """Where the DoFn's results go, if not through Beam's output handler."""

    def process(self, windowed_value: Any) -> None:
        if self.emission is not None:
            # Beam makes a context of its own for each of several windows.
            alone = not self.by_window or len(windowed_value.windows) == 1
            self.emission.context = windowed_value if alone else None
        super().process(windowed_value)


class ClaimGate:
    """Stands before the claims of one DoFn."""

    def __init__(self) -> None:
        self._allowance: Allowance | None = None
        self._interrupt: Callable[[], bool] = _nobody
        self.claimed = 0
        """How often something was claimed since the gate was opened."""
        self.may_split = True
        """Whether something was claimed: a split before that would only send it back."""
        self.fractions = _CHECKPOINT
        """How a split of the present restriction is tried: how much of the rest is kept."""

    def open(self, allowance: Allowance, interrupt: Callable[[], bool]) -> None:
        """Restrictions from now on are interrupted when ``allowance`` is spent.

        Args:
            interrupt: splits the restriction being processed; tells whether that was possible.
        """
        self._allowance, self._interrupt = allowance, interrupt
        self.claimed = 0
        self.may_split = True

    def close(self) -> None:
        """Let everything be claimed."""
        self._allowance, self._interrupt = None, _nobody

    def watch(self, tracker: Any) -> None:
        """Stand before the claims of ``tracker``, if there is an allowance."""
        allowance = self._allowance
        if allowance is None:
            return
        bounded = isinstance(tracker, BoundedSourceTracker)
        self.fractions = _NEARLY if bounded else _CHECKPOINT
        # A bounded source makes its claims there, past its restriction tracker.
        target = tracker.current_restriction().range_tracker() if bounded else tracker
        claim, clock, until = target.try_claim, allowance.clock, allowance.until
        most, again = max(1, allowance.claims), 1

        def try_claim(position: Any) -> Any:
            nonlocal most, again
            claimed = self.claimed
            if claimed >= most or (claimed >= again and clock() >= until):
                # If it cannot be split here, others are let pass: asking costs more than a claim.
                patience = _ENOUGH if self._interrupt() else min(max(1, claimed), _MOST_PATIENCE)
                most = again = claimed + patience
            granted = claim(position)
            if granted:
                self.claimed = claimed + 1
                self.may_split = True
            return granted

        try:
            target.try_claim = try_claim
        except AttributeError:
            return  # it has slots, so it is interrupted from outside only
        self.may_split = False

    def stand_before(self, dofn: Any) -> None:
        """Have every tracker of ``dofn`` pass by here.

        Beam asks a DoFn for the arguments of ``process`` by ``_inspect_process``, if it has that.
        """
        names, defaults = get_function_arguments(dofn, "process")
        guarded = [
            DoFn.RestrictionParam(_Guarded(default.restriction_provider or dofn, self))
            if isinstance(default, DoFn.RestrictionParam)
            else default
            for default in defaults
        ]
        dofn._inspect_process = lambda: (names, guarded)  # noqa: SLF001


def sees_windows(dofn: Any) -> bool:
    """Whether ``process`` asks for the window, so that it is called for each."""
    _, defaults = get_function_arguments(dofn, "process")
    return any(DoFn.WindowParam == default for default in defaults)


def _nobody() -> bool:
    return False


class _Guarded(RestrictionProvider):
    """A provider whose trackers pass by a gate."""

    def __init__(self, provider: Any, gate: ClaimGate) -> None:
        self._provider = provider
        self._gate = gate

    def create_tracker(self, restriction: Any) -> Any:
        tracker = self._provider.create_tracker(restriction)
        self._gate.watch(tracker)
        return tracker

    def initial_restriction(self, element: Any) -> Any:
        return self._provider.initial_restriction(element)

    def split(self, element: Any, restriction: Any) -> Any:
        return self._provider.split(element, restriction)

    def restriction_coder(self) -> Any:
        return self._provider.restriction_coder()

    def restriction_size(self, element: Any, restriction: Any) -> Any:
        return self._provider.restriction_size(element, restriction)

    def split_and_size(self, element: Any, restriction: Any) -> Any:
        return self._provider.split_and_size(element, restriction)

    def truncate(self, element: Any, restriction: Any) -> Any:
        return self._provider.truncate(element, restriction)
