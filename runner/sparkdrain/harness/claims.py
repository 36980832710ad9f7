"""Stops a splittable DoFn in the middle of a restriction, at the next thing it wants to claim.

The caller that has a DoFn process a restriction can set an allowance. Once the allowance is spent,
the next claim is preceded by a split of the restriction: what was claimed stays, and the rest is
left over. So the claim fails, as at the end of any restriction. Without an allowance (in batch)
claims cost what they always do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from apache_beam.io.iobase import _SDFBoundedSourceRestrictionTracker as BoundedSourceTracker
from apache_beam.transforms.core import DoFn, RestrictionProvider, get_function_arguments

if TYPE_CHECKING:
    from collections.abc import Callable

    from sparkdrain.harness.limits import Allowance

# Of what is left, how much to keep: 0 is a checkpoint. A bounded source refuses a split at what
# it has claimed already, so it may keep a little more.
_CHECKPOINT: Final[tuple[float, ...]] = (0.0,)
_NEARLY: Final[tuple[float, ...]] = (0.0, 1e-6, 1e-4, 1e-2, 0.1)
_MOST_PATIENCE: Final = 1024
_ENOUGH: Final = 1 << 62


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
            allowance: what may be claimed.
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
