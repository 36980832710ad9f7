"""What a slot tells the driver of a round, and what it has told before."""

from __future__ import annotations

from dataclasses import astuple, replace
from typing import TYPE_CHECKING, Final

from apache_beam.metrics.monitoring_infos import int64_user_counter

from sparkdrain.drain.progress import Left
from sparkdrain.graph.plan import EdgeId
from sparkdrain.rounds.messages import RoundReport
from sparkdrain.rounds.slots.draining import edges_of
from sparkdrain.rounds.slots.input_for import has_untruncated
from sparkdrain.stages.shards.input import NOTHING
from sparkdrain.watermarks.frontier import BEGIN, END

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from sparkdrain.graph.plan import Edge
    from sparkdrain.rounds.context import Context
    from sparkdrain.rounds.sides.sides import Sides
    from sparkdrain.rounds.slots.draining import Draining
    from sparkdrain.rounds.slots.run import SlotRun
    from sparkdrain.rounds.slots.version import StateVersion
    from sparkdrain.stages.shards.input import Inside
    from sparkdrain.stages.shards.shard import Shard
NAMESPACE: Final = "sparkdrain"
_LATE: Final = "droppedDueToLateness"
"""What Beam's runners in Java call it."""


class SlotAccount:
    """The account that a slot gives of its rounds; sums go on after an earlier life of the job.

    Args:
        restored: the last report of the slot in that life; None if there was none.
    """

    def __init__(self, context: Context, restored: RoundReport | None) -> None:
        self._context = context
        self._edges = {edge.id: edge for edge in context.plan.edges_into(context.level)}
        self._dropped = 0
        self._dropped_before = 0 if restored is None else restored.dropped
        # Up to where side inputs were dropped, at most; what was dropped once is gone for good.
        self._passed = {} if restored is None else dict(restored.passed)
        self._passed_before = self._passed
        # Metrics of the lives before this one.
        self._counted_before = [] if restored is None else list(restored.metrics)

    def commit(self) -> None:
        """The last round counts."""
        self._dropped_before += self._dropped
        self._passed_before = self._passed

    def report(
        self,
        run: SlotRun,
        version: StateVersion,
        inside: Sequence[Inside],
    ) -> RoundReport:
        """What is told of a round that has run; its state is not prepared yet.

        Args:
            inside: what was left inside of each stage when the round began; empty if the driver
                did not ask.
        """
        slot, sides, outbox = run.slot, run.sides, run.outbox
        durable = version.finalizers.durable
        found = (shard.wake(durable=durable) for shard in slot.shards)
        wakes = [wake for wake in found if wake is not None] + sides.wakes()
        self._dropped = _take_dropped(slot.shards, sides, self._edges)
        self._passed = {
            edge: max(time, self._passed_before.get(edge, BEGIN))
            for edge, time in sides.passed().items()
        }
        report = RoundReport(
            level=run.header.level,
            slot=run.header.slot,
            number=run.header.number,
            attempt=outbox.attempt,
            inputs=run.attempts,
            outputs=run.outputs,
            sent=frozenset(outbox.edges),
            wake=min(wakes, default=None),
            metrics=[*self._counted_before, *slot.metrics()],
            sent_bytes=outbox.sent_bytes,
            dropped=self._dropped_before + self._dropped,
            holds=tuple(hold for shard in slot.shards for hold in shard.holds() if hold.time < END),
            uploaded=version.ended(),
            unsettled=version.finalizers.unsettled,
            waits=version.waits(slot),
            passed=self._passed,
            left=self._left(slot.shards, run.draining, inside),
        )
        draining = run.draining
        if draining is None:
            return report
        return replace(
            report,
            drained=draining.drained,
            refused=tuple(refused for shard in slot.shards for refused in shard.take_refused()),
            missing=draining.missing(slot.shards),
            strangers=draining.states.strangers,
            untruncated=has_untruncated(slot.in_turn()),
        )

    def _left(
        self, shards: Sequence[Shard], draining: Draining | None, inside: Sequence[Inside]
    ) -> tuple[Left, ...]:
        left = []
        for number, (shard, own) in enumerate(zip(shards, inside, strict=bool(inside))):
            edges = edges_of(shard.stage)
            inputs, drained = self._context.slots * len(edges), 0
            if draining is not None:
                inputs, drained = draining.states.count(edges)
                own = NOTHING if draining.drained[number] else own  # noqa: PLW2901
            left.append(Left(shard.stage.name, inputs, drained, *astuple(own)))
        return tuple(left)


def _take_dropped(shards: Iterable[Shard], sides: Sides, edges: Mapping[EdgeId, Edge]) -> int:
    """How many elements a slot has dropped since the last call; their steps count them."""
    total, by_side = 0, sides.take_dropped()
    for shard in shards:
        found = [(edge, input_.take_dropped()) for edge, input_ in shard.inputs]
        read = {side.edge for side in shard.stage.side_inputs}
        found += [(edge, by_side.pop(edge)) for edge in read & by_side.keys()]
        for edge, dropped in found:
            if dropped and edge is not None:
                step = edges[EdgeId(edge)].step
                shard.count(int64_user_counter(NAMESPACE, _LATE, dropped, step))
                total += dropped
    return total
