"""How the job can be drained, as the loop of its rounds needs to know it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sparkdrain.drain.limits import Limits
from sparkdrain.rounds.messages import DrainOrder

if TYPE_CHECKING:
    from sparkdrain.drain.notification import DrainNotification
    from sparkdrain.drain.phases import DrainPhase
    from sparkdrain.drain.signal import DrainSignal
    from sparkdrain.rounds.driver.drain_watch import DrainWatch
    from sparkdrain.rounds.driver.schedule import Schedule


@dataclass(slots=True)
class DrainTerms:
    """Where a drain is asked for, what hears of it, and the limits of each slot meanwhile.

    Attributes:
        signal: has the job drained: from the next round on, sources give nothing more. Without
            one, it cannot be.
        timer_repeats: see ``messages.DrainOrder.repeats``.
        limits: how long a slot may be at something meanwhile.
    """

    signal: DrainSignal | None = None
    timer_repeats: int = 0
    limits: Limits = field(default_factory=Limits)
    watch: DrainWatch | None = None

    def requested(self) -> DrainNotification | None:
        """The request for a drain, if there is one."""
        return None if self.signal is None else self.signal.requested()

    def order(self, run_id: str) -> DrainOrder:
        """What slots are told."""
        return DrainOrder(run_id, self.timer_repeats, self.limits)

    def is_asked(self) -> bool:
        """Whether a caller waits to hear how much is left."""
        return self.watch is not None and self.watch.is_asked()

    def wants_survey(self, now: int) -> bool:
        """Whether the next round is to tell how much is left."""
        return self.watch is not None and self.watch.wants(now)

    def committed(self, schedule: Schedule, now: int) -> None:
        """A round was committed."""
        if self.watch is not None:
            self.watch.committed(schedule, now)

    def entered(self, phase: DrainPhase, now: int) -> None:
        """The job has come to a phase."""
        if self.watch is not None:
            self.watch.entered(phase, now)

    def over(self, phase: DrainPhase, now: int) -> None:
        """The job has ended, in a phase."""
        if self.watch is not None:
            self.watch.over(phase, now)
