"""A round of a slot while the job is drained: what differs from any other round.

Every turn has two parts. In the first one, time is where it would be without the drain, so what
happens there would have happened anyway. In the second one, time is at its end if that is what the
drain has made of it: all that fires there is caused by drain, and so is what came in elements that
are. The parts are bundles of their own, and blocks of their own.

A stage is drained when all producers of its inputs are, and nothing is left inside. Then its DoFns
are told (``on_drain``), and with the end of time its consumers hear that it is drained.
"""

from __future__ import annotations

import struct
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from sparkdrain.drain.caused import causing
from sparkdrain.drain.limits import Kind
from sparkdrain.drain.states import DrainMessage, DrainStates
from sparkdrain.graph.plan import EdgeId, EdgeKind
from sparkdrain.graph.state_ids import DRAIN_STATE_ID
from sparkdrain.panes.round_blocks import RoundBlocks
from sparkdrain.rounds.slots.time_limits import limited
from sparkdrain.watermarks.frontier import END

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from sparkdrain.graph.plan import Edge
    from sparkdrain.rounds.inputs import Input, Turn
    from sparkdrain.rounds.messages import DrainOrder, RoundHeader
    from sparkdrain.rounds.shard import RoundShard
    from sparkdrain.shuffle.blocks import Block
    from sparkdrain.shuffle.outbox import Outbox
    from timers_state import Overlay

_EDGE: Final = struct.Struct(">I")
_TIME: Final = struct.Struct(">q")
_NATURAL, _MIXED = b"n", b"m"
# The part of a slot's memory in which blocks of an edge wait for the second part of a round.
_SHARE: Final = 16


class DrainMemory:
    """What a slot remembers of a drain from round to round; part of its state."""

    def __init__(self, overlay: Overlay) -> None:
        scope = overlay.scope(DRAIN_STATE_ID, b"")
        self._natural = scope.map(_NATURAL)
        self._mixed = scope.map(_MIXED)

    def inherit(self, other: DrainMemory) -> None:
        """Remember what another slot does, too: some of its keys are here now."""
        for edge, time in other._natural.items():
            known = self._natural.get(edge)
            if known is None or _TIME.unpack(time) < _TIME.unpack(known):
                self._natural.put(edge, time)
        for edge, mark in other._mixed.items():
            self._mixed.put(edge, mark)

    def natural(self, edge: int, turn: Turn) -> int:
        """The frontier of an edge as it would be without the drain: as it was when that began.

        Whatever moves it later may be the drain, firing window after window on its way to the end
        of time. What it fires is taken in the second part: nothing may be late for that.
        """
        known = self._natural.get(_EDGE.pack(edge))
        if known is not None:
            time: int = _TIME.unpack(known)[0]
            return time
        # Who was at the end of time before the drain began got there alone.
        if turn.before < END:
            self._natural.put(_EDGE.pack(edge), _TIME.pack(turn.before))
        return turn.before

    def mix(self, edge: int) -> None:
        """What is caused by drain was put to other things that came on an edge."""
        if not self.is_mixed(edge):
            self._mixed.put(_EDGE.pack(edge), b"")

    def is_mixed(self, edge: int) -> bool:
        """Whether that was so."""
        return self._mixed.get(_EDGE.pack(edge)) is not None


class Draining:
    """One round of one slot.

    Args:
        header: of the round.
        order: to drain.
        edges: that lead to the slot's level.
        slots: per level.
        overlay: the slot's state.
        memory_bytes: how much a slot may keep in memory.
        scratch: where the rest goes.
    """

    def __init__(
        self,
        header: RoundHeader,
        order: DrainOrder,
        edges: Iterable[Edge],
        slots: int,
        overlay: Overlay,
        memory_bytes: int,
        scratch: Callable[[], Path],
    ) -> None:
        self._edges = {edge.id: edge for edge in edges}
        self._order = order
        self._slot = header.slot
        self._before = header.drained
        self._memory = DrainMemory(overlay)
        self._room = memory_bytes // _SHARE
        self._scratch = scratch
        self._blocks: dict[int, RoundBlocks] = {}
        self._drained: list[bool] = []
        self._edges_drained: list[int] = []
        self.states = DrainStates(order.run_id, dict.fromkeys(self._edges, slots), header.heard)

    # --- what comes ---------------------------------------------------------------------------

    def keeps(self, block: Block) -> bool:
        """Take a block if it belongs to the second part of the round; else it is not for here.

        Raises:
            DataAfterDrain: it must not come.
        """
        self.states.data(block.edge, block.producer)
        edge = self._edges[EdgeId(block.edge)]
        if edge.kind is EdgeKind.BROADCAST:
            return False  # side inputs mark nobody
        if block.of_drain and _mixes(edge):
            self._memory.mix(block.edge)
        elif not block.of_drain and not (_mixes(edge) and self._memory.is_mixed(block.edge)):
            return False
        blocks = self._blocks.get(block.edge)
        if blocks is None:
            blocks = self._blocks[block.edge] = RoundBlocks(self._room, self._scratch)
        blocks.add(block.payload)
        return True

    def heard(self, messages: Iterable[DrainMessage]) -> None:
        """Drain messages came."""
        for message in messages:
            self.states.update(message)

    # --- what is done -------------------------------------------------------------------------

    def run(
        self, shard: RoundShard, turns: Sequence[Turn], outbox: Outbox, flush: Callable[[], None]
    ) -> None:
        """Run a stage; all stages of the level, one after the other.

        Args:
            shard: the stage.
            turns: of its inputs, as they would be in one part.
            outbox: of the slot.
            flush: sends what writers of the stage have.
        """
        firsts = [
            replace(
                turn,
                after=turn.after if edge is None else self._memory.natural(edge, turn),
                draining=True,
                complete=None if self._waits(edge) else turn.after,
                repeats=self._repeats(turn),
            )
            for (edge, _), turn in zip(shard.inputs, turns, strict=True)
        ]
        with self._limited(Kind.ELEMENT, shard):
            shard.process(firsts)
        with self._limited(Kind.WATERMARK, shard):
            shard.advance(firsts)
            shard.finish()
        flush()
        with causing():
            outbox.of_drain = True
            self._second(shard, turns)
            with self._limited(Kind.WATERMARK, shard):
                self._conclude(shard, turns)
                shard.finish()
            flush()
            outbox.of_drain = False

    def _waits(self, edge: int | None) -> bool:
        """Whether what waits for its time on an edge has a mark, and goes in the second part."""
        return edge is not None and self._memory.is_mixed(edge)

    def _repeats(self, turn: Turn) -> int | None:
        return self._order.repeats if turn.after == END else None

    def _second(self, shard: RoundShard, turns: Sequence[Turn]) -> None:
        seconds = []
        for (edge, input_), turn in zip(shard.inputs, turns, strict=True):
            if edge is None:
                continue  # what the driver gives is given once
            blocks = self._blocks.pop(edge, None)
            if blocks is None and turn.budget.is_spent() and _is_behind(input_, turn.now):
                continue  # what would have happened anyway comes first
            for payload in () if blocks is None else blocks.drain():
                input_.take(memoryview(payload))
            seconds.append(
                (
                    input_,
                    replace(turn, draining=True, of_drain=True, repeats=self._repeats(turn)),
                )
            )
        with self._limited(Kind.ELEMENT, shard):
            for input_, turn in seconds:
                input_.process(turn)
        with self._limited(Kind.WATERMARK, shard):
            for input_, turn in seconds:
                input_.advance(turn)

    def _limited(self, kind: Kind, shard: RoundShard) -> AbstractContextManager[None]:
        return limited(self._order.limits, kind, f"slot {self._slot} of {shard.stage.name!r}")

    def _conclude(self, shard: RoundShard, turns: Sequence[Turn]) -> None:
        """Find out whether a stage is drained, and tell its DoFns, once."""
        number = len(self._drained)
        drained = (
            self.states.is_drained(_edges_of(shard))
            and all(turn.after == END for turn in turns)
            and all(input_.hold() == END and input_.wake() is None for _, input_ in shard.inputs)
        )
        if drained and not (self._before and self._before[number]):
            shard.drain()
        self._drained.append(drained)
        if drained:
            self._edges_drained += [edge for _, edge in shard.stage.sinks]

    # --- what is told -------------------------------------------------------------------------

    def outputs(
        self, shards: Sequence[RoundShard], before: Sequence[int], outputs: Sequence[int]
    ) -> tuple[int, ...]:
        """The output frontiers of stages; one whose DoFns are still to be told must not end."""
        return tuple(
            before_ if shard.awaits_drain and not drained else time
            for shard, before_, time, drained in zip(
                shards, before, outputs, self._drained, strict=True
            )
        )

    def message(self, slot: int) -> DrainMessage:
        """What consumers are told."""
        return DrainMessage(self._order.run_id, slot, tuple(self._edges_drained))

    @property
    def drained(self) -> tuple[bool, ...]:
        """Of each stage whether it is drained."""
        return tuple(self._drained)


def _mixes(edge: Edge) -> bool:
    """Whether what comes on an edge is put to what came earlier, and comes out with that."""
    return edge.kind is EdgeKind.GROUP or edge.time_sorted


def _is_behind(input_: Input, now: int) -> bool:
    wake = input_.wake()
    return wake is not None and wake <= now


def _edges_of(shard: RoundShard) -> list[int]:
    return [edge for edge, _ in shard.inputs if edge is not None]
