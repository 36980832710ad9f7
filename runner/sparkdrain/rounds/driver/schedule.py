"""What the driver knows of a streaming job, and what follows from it. Pure."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from apache_beam.metrics.monitoring_infos import int64_user_counter
from apache_beam.portability.api import metrics_pb2

from sparkdrain.drain.progress import METRICS
from sparkdrain.metrics.merge import merge
from sparkdrain.rounds.messages import Orders, RoundHeader, RoundReport
from sparkdrain.watermarks.frontier import BEGIN, END, advanced, least

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sparkdrain.drain.progress import Hold
    from sparkdrain.graph.plan import Plan
    from sparkdrain.rounds.messages import Inheritance, Missing
    from sparkdrain.shuffle.complete import Producer
    from sparkdrain.stages.shards.turn import Feed

_NO_ORDERS: Final = Orders()

LevelSlot = tuple[int, int]
"""Level and slot."""


@dataclass(slots=True)
class Schedule:
    """The committed end of the last round, as the reports of all slots tell it.

    Invariant: it changes by ``commit`` only, with the reports of every slot of every level that
    ran. A round that failed has left nothing here, so it can be run again.
    """

    plan: Plan
    slots: int
    number: int = 0
    refused: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Timers that a drain has refused, by transform and family."""
    strangers: int = 0
    """Drain messages of other runs that slots have dropped."""
    _last: dict[LevelSlot, RoundReport] = field(default_factory=dict)
    # What slots begin with that have not run since the job was taken up again.
    _inherited: dict[LevelSlot, Inheritance] = field(default_factory=dict)
    # Of each edge the level and the stage that send it; asked for every slot of every round.
    _origins: dict[int, tuple[int, int]] = field(init=False)

    def __post_init__(self) -> None:
        self._origins = {
            edge: (level, number)
            for level, stages in enumerate(self.plan.levels)
            for number, stage in enumerate(stages)
            for _, edge in stage.sinks
        }

    def restore(self, number: int, inherited: Mapping[LevelSlot, Inheritance]) -> None:
        """Go on where a checkpoint is: after round ``number``, with what each slot has then."""
        self.number = number
        self._last = {shard: inheritance.report for shard, inheritance in inherited.items()}
        self._inherited = dict(inherited)

    def move(self, inherited: Mapping[LevelSlot, Inheritance]) -> None:
        """Open these slots anew in the next round, with what a checkpoint has of them.

        That must be what they have now.
        """
        self._last |= {shard: inheritance.report for shard, inheritance in inherited.items()}
        self._inherited |= inherited

    # --- between rounds -----------------------------------------------------------------------

    def wake(self) -> int | None:
        """The processing time at which some level has something to do; None: never."""
        if len(self._last) < len(self.plan.levels) * self.slots:
            return BEGIN
        wakes = [report.wake for report in self._last.values() if report.wake is not None]
        return min(wakes, default=None)

    def waits(self) -> bool:
        """Whether something waits for a checkpoint."""
        return any(report.waits for report in self._last.values())

    def is_over(self) -> bool:
        """Whether nothing is left to do, and nothing can come."""
        return self.wake() is None and self.frontier() == END

    def frontier(self) -> int:
        """The time up to which everything has left the job."""
        if len(self._last) < len(self.plan.levels) * self.slots:
            return BEGIN
        return least(time for report in self._last.values() for time in report.outputs)

    def holds(self) -> list[Hold]:
        """What holds frontiers back, the earliest time first."""
        held = (hold for report in self._last.values() for hold in report.holds)
        return sorted(held, key=lambda hold: hold.time)

    def reports(self) -> list[RoundReport]:
        """The last committed report of every slot."""
        return list(self._last.values())

    def metrics(self) -> list[metrics_pb2.MonitoringInfo]:
        """The sums over all slots. Rounds that were undone do not count."""
        infos = merge(
            metrics_pb2.MonitoringInfo.FromString(info)
            for report in self._last.values()
            for info in report.metrics
        )
        if self.strangers:
            infos.append(
                int64_user_counter(METRICS, "foreign_messages", self.strangers, ptransform="")
            )
        return infos

    def edge_frontier(self, edge: int) -> int:
        """The frontier of an edge at the end of the last round."""
        return least(self._told(edge, self._last))

    def _told(self, edge: int, reports: Mapping[LevelSlot, RoundReport]) -> list[int]:
        level, number = self._origins[edge]
        return [
            reports[level, slot].outputs[number] if (level, slot) in reports else BEGIN
            for slot in range(self.slots)
        ]

    def _drained(self, edge: int, reports: Mapping[LevelSlot, RoundReport]) -> frozenset[int]:
        """The slots that are drained on an edge."""
        level, number = self._origins[edge]
        return frozenset(
            slot
            for slot in range(self.slots)
            if (report := reports.get((level, slot))) and report.drained and report.drained[number]
        )

    def knows_of_drain(self) -> bool:
        """Whether all slots have heard of the drain in this life of the job."""
        return all(map(self._knows_of_drain, range(len(self.plan.levels))))

    def is_truncated(self) -> bool:
        """Whether all slots have heard of the drain, and no restriction waits for truncation."""
        waiting = any(report.untruncated for report in self._last.values())
        return not waiting and self.knows_of_drain()

    def missing(self) -> list[Missing]:
        """The drain messages for which stages wait that nothing else keeps from being drained.

        Empty if some stage that is not drained has heard from all of its producers: something else
        holds that stage, and with it all those behind it.
        """
        undrained = {
            (stage.name, slot)
            for level, stages in enumerate(self.plan.levels)
            for number, stage in enumerate(stages)
            for slot in range(self.slots)
            if not self._is_drained(level, number, slot)
        }
        waiting = {
            (missing.stage, report.slot): missing
            for report in self._last.values()
            for missing in report.missing
        }
        return list(waiting.values()) if undrained and undrained <= waiting.keys() else []

    def _is_drained(self, level: int, number: int, slot: int) -> bool:
        report = self._last.get((level, slot))
        return report is not None and bool(report.drained) and report.drained[number]

    def undrained(self) -> list[str]:
        """The names of the stages that are not drained in all slots."""
        return [
            stage.name
            for level, stages in enumerate(self.plan.levels)
            for number, stage in enumerate(stages)
            if not all(self._is_drained(level, number, slot) for slot in range(self.slots))
        ]

    def is_drained(self) -> bool:
        """Whether all stages are drained in all slots."""
        slots = len(self.plan.levels) * self.slots
        return len(self._last) == slots and all(
            report.drained and all(report.drained) for report in self._last.values()
        )

    # --- in a round ---------------------------------------------------------------------------

    def is_due(
        self,
        level: int,
        now: int,
        ran: Mapping[int, Sequence[RoundReport]],
        feeds: Mapping[str, Feed],
        orders: Orders = _NO_ORDERS,
    ) -> bool:
        """Whether a level has something to do, after those before it in the round.

        Args:
            now: the round's processing time.
            ran: the reports of the levels that ran in this round.
        """
        if orders.still:
            return level in orders.levels
        if level in orders.levels or orders.survey:
            return True
        mine = [self._last.get((level, slot)) for slot in range(self.slots)]
        if orders.drain is not None and not self._knows_of_drain(level):
            return True
        if any(report is None or _is_awake(report, now) for report in mine):
            return True
        if any(transform in feeds for s in self.plan.levels[level] for transform, _ in s.sources):
            return True
        current = {(r.level, r.slot): r for reports in ran.values() for r in reports}
        return any(
            any(edge.id in report.sent for report in ran[edge.producer])
            or least(self._told(edge.id, current)) > self.edge_frontier(edge.id)
            or (
                orders.drain is not None
                and self._drained(edge.id, current) > self._drained(edge.id, self._last)
            )
            for edge in self.plan.edges_into(level)
            if edge.producer in ran
        )

    def _knows_of_drain(self, level: int) -> bool:
        """Whether all slots of a level have run in this life of the job since it is drained.

        After a resume every producer tells again that it is drained: there may be other consumers.
        """
        shards = [(level, slot) for slot in range(self.slots)]
        return all(
            (report := self._last.get(shard)) and report.drained and shard not in self._inherited
            for shard in shards
        )

    def header(
        self,
        level: int,
        slot: int,
        now: int,
        ran: Mapping[int, Sequence[RoundReport]],
        seconds: float,
        elements: int,
        feeds: Mapping[str, Feed],
        orders: Orders = _NO_ORDERS,
    ) -> RoundHeader:
        """What a slot is told in the round that follows the last one."""
        last = self._last.get((level, slot))
        edges = self.plan.edges_into(level)
        expected: frozenset[Producer] = frozenset(
            (edge.producer, producer)
            for edge in edges
            if edge.producer in ran and not orders.still
            for producer in range(self.slots)
        )
        own = {t for stage in self.plan.levels[level] for t, _ in stage.sources}
        return RoundHeader(
            number=self.number + 1,
            level=level,
            slot=slot,
            now=now,
            committed=None if last is None else last.attempt,
            expected=expected,
            inputs={edge.id: self.edge_frontier(edge.id) for edge in edges},
            outputs=() if last is None else last.outputs,
            begin=last is None,
            seconds=seconds,
            elements=elements,
            feeds={transform: feed for transform, feed in feeds.items() if transform in own},
            orders=orders,
            restore=self._inherited.get((level, slot)),
        )

    def commit(self, reports: Sequence[RoundReport]) -> None:
        """The round is over, and all of its slots have reported."""
        for report in reports:
            before = self._last.get((report.level, report.slot))
            for number, time in enumerate(report.outputs):
                advanced(BEGIN if before is None else before.outputs[number], time, "a stage")
            self._last[report.level, report.slot] = report
            for transform, family, count in report.refused:
                self.refused[transform, family] += count
            self.strangers += report.strangers
            self._inherited.pop((report.level, report.slot), None)
        self.number += 1


def _is_awake(report: RoundReport, now: int) -> bool:
    return report.wake is not None and report.wake <= now
