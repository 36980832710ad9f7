"""One round of a slot: blocks in; blocks, end messages and frontiers out."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from sparkdrain.shuffle.complete import Completeness
from sparkdrain.stages.shards.turn import Turn
from sparkdrain.watermarks.frontier import BEGIN, END, advanced

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sparkdrain.graph.plan import Plan
    from sparkdrain.rounds.messages import RoundHeader
    from sparkdrain.rounds.sides.sides import Sides
    from sparkdrain.rounds.slots.draining import Draining
    from sparkdrain.shuffle.complete import Producer
    from sparkdrain.shuffle.outbox import Outbox
    from sparkdrain.stages.shards.shard import Shard
    from sparkdrain.stages.shards.slot import Slot
    from sparkdrain.stages.shards.turn import Budget


@dataclass(slots=True)
class SlotRun:
    """Runs one round.

    Attributes:
        budget: how much sources and timers may make.
        draining: what differs while the job is drained; None while it is not.
        attempts: the attempt of each producer whose output was read.
        outputs: the output frontier of each stage.
    """

    header: RoundHeader
    plan: Plan
    slot: Slot
    sides: Sides
    outbox: Outbox
    budget: Budget
    draining: Draining | None
    attempts: dict[Producer, int] = field(default_factory=dict)
    outputs: tuple[int, ...] = ()
    _frontiers: dict[int, int] = field(default_factory=dict)

    def run(self, records: Iterable[bytes]) -> None:
        """Take all that comes, give every stage its turn, and send what they make, to the end.

        Raises:
            TruncatedInput: not all of the input was there.
        """
        slot, draining = self.slot, self.draining
        self.sides.begin(self.header.inputs)
        for shard in slot.shards:
            shard.begin(self.header.now, carries=draining is None)
        complete = Completeness(self.header.expected)
        if draining is None:
            slot.take(records, complete)
        else:
            slot.take(records, complete, draining.keeps)
        self.attempts = complete.verify()
        if draining is not None:
            draining.heard(complete.drains())
        self._frontiers = complete.frontiers()
        self.sides.run({edge: self._turn(edge) for edge in self.sides.streams}, slot.shards)
        turns = [self._turns(shard) for shard in slot.shards]
        for shard, own in zip(slot.shards, turns, strict=True):
            if draining is None:
                shard.run(own)
            else:
                draining.run(shard, own, self.outbox, partial(slot.flush, shard))
        self.sides.expire()
        slot.flush()
        self.outputs = self._output_frontiers(turns)
        message = None if draining is None else draining.message()
        self.outbox.end(self._told(), message)

    def rest(self) -> None:
        """Take nothing and send nothing: all stays as it is."""
        self.outputs = self.header.outputs

    def _turns(self, shard: Shard) -> list[Turn]:
        header, turns = self.header, []
        for (edge, _), (transform, _) in zip(shard.inputs, shard.stage.sources, strict=True):
            if edge is not None:
                turns.append(self._turn(edge))
                continue
            feed = header.feeds.get(transform)
            if feed is not None:
                before, after = feed.before, feed.frontier
            else:
                before, after = (BEGIN if header.begin else END), END
            turns.append(Turn(before, after, header.now, self.budget, feed, header.orders.held))
        return turns

    def _turn(self, edge: int) -> Turn:
        header, before = self.header, self.header.inputs[edge]
        after = advanced(before, self._frontiers.get(edge, before), f"edge {edge}")
        return Turn(before, after, header.now, self.budget, held=header.orders.held)

    def _output_frontiers(self, turns: list[list[Turn]]) -> tuple[int, ...]:
        shards = self.slot.shards
        before = self.header.outputs or (BEGIN,) * len(shards)
        outputs = tuple(
            shard.frontier(time, own)
            for shard, time, own in zip(shards, before, turns, strict=True)
        )
        draining = self.draining
        return outputs if draining is None else draining.outputs(shards, before, outputs)

    def _told(self) -> dict[int, list[tuple[int, int]]]:
        """What each later level is told: its edges, and the frontier of each."""
        told: dict[int, list[tuple[int, int]]] = {}
        edges = self.plan.edges_out_of(self.header.level)
        consumers = {edge.id: edge.consumer for edge in edges}
        for shard, frontier in zip(self.slot.shards, self.outputs, strict=True):
            for _, id_ in shard.stage.sinks:
                told.setdefault(consumers[id_], []).append((id_, frontier))
        return told
