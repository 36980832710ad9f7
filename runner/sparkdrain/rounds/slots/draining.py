"""A round of a slot while the job is drained: what differs from any other round.

Every turn has two parts. In the first one, time is where it would be without the drain, so what
happens there would have happened anyway. In the second one, time is at its end if that is what the
drain has made of it: all that fires there is caused by drain, and so is what came in elements that
are. The parts are bundles of their own, and blocks of their own.

A stage is drained when the drain messages of this run have come from all producers of its inputs,
side inputs too, and nothing is left inside. That its inputs are at the end of time is not enough: a
bounded input gets there by itself. Then its DoFns are told (``on_drain``), and with the end of time
its consumers hear that it is drained.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from sparkdrain.drain.caused import causing
from sparkdrain.drain.limits import LimitKind
from sparkdrain.drain.states import DrainMessage, DrainStates
from sparkdrain.graph.plan import EdgeId, EdgeKind
from sparkdrain.panes.arrivals import RoundBlocks
from sparkdrain.rounds.messages import Missing
from sparkdrain.rounds.slots.drain_memory import DrainMemory
from sparkdrain.rounds.slots.time_limits import limited
from sparkdrain.watermarks.frontier import END

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from contextlib import AbstractContextManager

    from sparkdrain.graph.plan import Edge, Stage
    from sparkdrain.rounds.context import Context
    from sparkdrain.rounds.messages import DrainOrder
    from sparkdrain.shuffle.blocks import Block
    from sparkdrain.shuffle.outbox import Outbox
    from sparkdrain.stages.shards.input import Input
    from sparkdrain.stages.shards.shard import Shard
    from sparkdrain.stages.shards.turn import Turn

# The part of a slot's memory in which blocks of an edge wait for the second part of a round.
_SHARE: Final = 16


class Draining:
    """One round of one slot."""

    def __init__(self, context: Context, order: DrainOrder) -> None:
        self._edges = {edge.id: edge for edge in context.plan.edges_into(context.level)}
        self._order = order
        self._context = context
        self._memory = DrainMemory(context.overlay)
        self._memory.begin(order.run_id)
        self._blocks: dict[int, RoundBlocks] = {}
        self._drained: list[bool] = []
        self._edges_drained: list[int] = []
        expected = {int(edge): context.slots for edge in self._edges}
        self.states = DrainStates(order.run_id, expected, self._memory.heard())

    # --- what comes ---------------------------------------------------------------------------

    def keeps(self, block: Block) -> bool:
        """Take a block if it belongs to the second part of the round; else it is not for here.

        Raises:
            DataAfterDrain: it must not come.
        """
        self.states.data(block.edge, block.producer)
        edge = self._edges[EdgeId(block.edge)]
        if edge.kind is EdgeKind.BROADCAST:
            return False  # side inputs mark no element
        if block.of_drain and _mixes(edge):
            self._memory.mix(block.edge)
        elif not block.of_drain and not (_mixes(edge) and self._memory.is_mixed(block.edge)):
            return False
        blocks = self._blocks.get(block.edge)
        if blocks is None:
            room = self._context.options.memory_bytes // _SHARE
            blocks = RoundBlocks(room, lambda: self._context.directory)
            self._blocks[block.edge] = blocks
        blocks.add(block.payload)
        return True

    def heard(self, messages: Iterable[DrainMessage]) -> None:
        """Drain messages came: count them, and remember them with the round."""
        for message in messages:
            self.states.update(message)
        self._memory.hear(self.states.told)

    # --- what is done -------------------------------------------------------------------------

    def run(
        self, shard: Shard, turns: Sequence[Turn], outbox: Outbox, flush: Callable[[], None]
    ) -> None:
        """Run a stage; all stages of the level, one after the other.

        Args:
            turns: one for each of its inputs, as it would be if the stage ran in one part.
            flush: sends what writers of the stage have.
        """
        firsts = [
            replace(
                turn,
                after=turn.after if edge is None else self._memory.natural(edge, turn.before),
                draining=True,
                complete=None if self._waits(edge) else turn.after,
                repeats=self._repeats(turn),
            )
            for (edge, _), turn in zip(shard.inputs, turns, strict=True)
        ]
        with self._limited(LimitKind.ELEMENT, shard):
            shard.process(firsts)
        with self._limited(LimitKind.WATERMARK, shard):
            shard.advance(firsts)
            shard.finish()
        flush()
        with causing():
            outbox.of_drain = True
            self._second(shard, turns)
            with self._limited(LimitKind.WATERMARK, shard):
                self._conclude(shard, turns)
                shard.finish()
            flush()
            outbox.of_drain = False

    def _waits(self, edge: int | None) -> bool:
        """Whether what waits for its time on an edge has a mark, and goes in the second part."""
        return edge is not None and self._memory.is_mixed(edge)

    def _repeats(self, turn: Turn) -> int | None:
        return self._order.repeats if turn.after == END else None

    def _second(self, shard: Shard, turns: Sequence[Turn]) -> None:
        seconds = []
        for (edge, input_), turn in zip(shard.inputs, turns, strict=True):
            if edge is None:
                continue  # what the driver gives is given once
            blocks = self._blocks.pop(edge, None)
            if blocks is None and turn.budget.is_spent() and _is_behind(input_, turn.now):
                continue  # what would have happened anyway comes first
            for payload in () if blocks is None else blocks.take_all():
                input_.take(memoryview(payload))
            seconds.append(
                (
                    input_,
                    replace(turn, draining=True, of_drain=True, repeats=self._repeats(turn)),
                )
            )
        with self._limited(LimitKind.ELEMENT, shard):
            for input_, turn in seconds:
                input_.process(turn)
        with self._limited(LimitKind.WATERMARK, shard):
            for input_, turn in seconds:
                input_.advance(turn)

    def _limited(self, kind: LimitKind, shard: Shard) -> AbstractContextManager[None]:
        who = f"slot {self._context.slot} of {shard.stage.name!r}"
        return limited(self._order.limits, kind, who)

    def _conclude(self, shard: Shard, turns: Sequence[Turn]) -> None:
        """Find out whether a stage is drained, and tell its DoFns, once."""
        number = len(self._drained)
        drained = (
            self.states.is_drained(edges_of(shard.stage))
            and all(turn.after == END for turn in turns)
            and all(input_.hold() == END and input_.wake() is None for _, input_ in shard.inputs)
            and not shard.carried
        )
        if drained and not self._memory.is_told(number):
            shard.tell_drained()
            self._memory.tell(number)
        self._drained.append(drained)
        if drained:
            self._edges_drained += [edge for _, edge in shard.stage.sinks]

    # --- what is told -------------------------------------------------------------------------

    def outputs(
        self, shards: Sequence[Shard], before: Sequence[int], outputs: Sequence[int]
    ) -> tuple[int, ...]:
        """The output frontiers of stages; one whose DoFns are still to be told must not end."""
        return tuple(
            before_ if shard.awaits_drain and not drained else time
            for shard, before_, time, drained in zip(
                shards, before, outputs, self._drained, strict=True
            )
        )

    def message(self) -> DrainMessage:
        """What consumers are told."""
        slot = self._context.slot
        return DrainMessage(self._order.run_id, slot, tuple(self._edges_drained))

    @property
    def drained(self) -> tuple[bool, ...]:
        """Whether each stage is drained, in their order."""
        return tuple(self._drained)

    def missing(self, shards: Iterable[Shard]) -> tuple[Missing, ...]:
        """The drain messages that stages still wait for."""
        return tuple(
            Missing(shard.stage.name, edge, count)
            for shard in shards
            for edge, count in self.states.missing(edges_of(shard.stage)).items()
        )


def _mixes(edge: Edge) -> bool:
    """Whether what comes on an edge is put to what came earlier, and comes out with that."""
    return edge.kind is EdgeKind.GROUP or edge.time_sorted


def _is_behind(input_: Input, now: int) -> bool:
    wake = input_.wake()
    return wake is not None and wake <= now


def edges_of(stage: Stage) -> list[int]:
    """The edges whose producers tell a stage that they are drained; side inputs are among them."""
    main = [edge for _, edge in stage.sources if edge is not None]
    return [*main, *{side.edge for side in stage.side_inputs}]
