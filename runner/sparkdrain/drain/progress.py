"""How far a drain has come: a value, computed from what slots report and from nothing else."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from sparkdrain.drain.phases import DrainPhase

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

METRICS: Final = "sparkdrain.drain"
"""Namespace of the counters that tell of a drain."""


@dataclass(frozen=True, slots=True)
class Left:
    """What is left inside of one stage: in one slot as it reports it, or in all of them together.

    Attributes:
        stage: its name, for people.
        inputs: from how many producers the stage expects to hear that they are drained.
        drained: from how many it has heard; all of them: nothing new can come in.
        windows: windows with content that are still to fire or to expire, counted for each key.
        timers: timers of user code that are still to fire, of all time domains.
        parked: elements that wait for something: a side input, a checkpoint, a time.
        residuals: restrictions that are still to be truncated or processed.
    """

    stage: str
    inputs: int
    drained: int
    windows: int = 0
    timers: int = 0
    parked: int = 0
    residuals: int = 0

    @property
    def things(self) -> int:
        """All that is still inside."""
        return self.windows + self.timers + self.parked + self.residuals

    @property
    def is_drained(self) -> bool:
        """Whether nothing is inside and nothing can come."""
        return not self.things and self.drained == self.inputs

    def emptied(self) -> Left:
        """The same stage when nothing is left."""
        return Left(self.stage, self.inputs, self.inputs)

    def plus(self, other: Left) -> Left:
        """Both together, of the same stage in different slots."""
        return Left(
            self.stage,
            self.inputs + other.inputs,
            self.drained + other.drained,
            self.windows + other.windows,
            self.timers + other.timers,
            self.parked + other.parked,
            self.residuals + other.residuals,
        )


@dataclass(frozen=True, slots=True)
class Hold:
    """What keeps the output frontier of one stage back, in one slot.

    Attributes:
        stage: its name, for people.
        reason: what it is, see "Event time" in docs/streaming.md.
        time: event time that it holds, microseconds since 1970.
    """

    stage: str
    reason: str
    time: int


@dataclass(frozen=True, slots=True)
class DrainProgress:
    """A drain at one moment. Times are microseconds of processing time since 1970.

    Attributes:
        began: when the engine heard of the drain.
        stages: what is left of each, in the order of the pipeline.
        hold: the oldest one; None if nothing is held back.
        held_since: when ``hold`` became the oldest one.
        peak: the most things that were inside at once since the drain began.
        peak_time: when that was, the last time.
    """

    run_id: str
    began: int
    now: int
    stages: tuple[Left, ...] = ()
    hold: Hold | None = None
    held_since: int = 0
    peak: int = 0
    peak_time: int = 0
    phase: DrainPhase = DrainPhase.READING

    @property
    def things(self) -> int:
        """All that is still inside of the job."""
        return sum(left.things for left in self.stages)

    @property
    def stages_drained(self) -> int:
        """How many stages are drained: nothing is left inside, and nothing can come."""
        return sum(left.is_drained for left in self.stages)

    @property
    def rate(self) -> float:
        """Things a second that have left, net of those that were made, since there were most."""
        seconds = (self.now - self.peak_time) / 1e6
        return (self.peak - self.things) / seconds if seconds > 0 else 0.0

    @property
    def expected_end(self) -> int | None:
        """When nothing is left if it goes on at this rate; None if that cannot be told."""
        if not self.things:
            return self.now if self.stages_drained == len(self.stages) else None
        return self.now + int(self.things / self.rate * 1e6) if self.rate > 0 else None


def began(run_id: str, now: int) -> DrainProgress:
    """The beginning, before any slot has reported.

    Args:
        now: processing time, microseconds since 1970.
    """
    return DrainProgress(run_id, now, now, peak_time=now)


def advanced(
    before: DrainProgress,
    now: int,
    left: Iterable[Left],
    holds: Sequence[Hold],
) -> DrainProgress:
    """What follows from the newest reports of all slots.

    Args:
        now: processing time, microseconds since 1970.
        left: what is left inside of every stage in every slot, in the order of the pipeline.
        holds: those of all slots, in any order.
    """
    stages: dict[str, Left] = {}
    for one in left:
        stages[one.stage] = stages[one.stage].plus(one) if one.stage in stages else one
    hold = min(holds, key=lambda hold: (hold.time, hold.stage, hold.reason), default=None)
    since = before.held_since if hold == before.hold else now
    after = replace(before, now=now, stages=tuple(stages.values()), hold=hold, held_since=since)
    if after.things >= before.peak:
        return replace(after, peak=after.things, peak_time=now)
    return after
