"""The side inputs of a level in one slot, and the gates of the transforms that read them."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from apache_beam.portability.api import beam_runner_api_pb2
from apache_beam.pvalue import SideInputData
from apache_beam.transforms.sideinputs import default_window_mapping_fn

from sparkdrain.graph.beam import python_urns
from sparkdrain.graph.plan import EdgeId, EdgeKind, PCollectionId
from sparkdrain.graph.state_ids import parked_state_id
from sparkdrain.panes.arrivals import RoundBlocks
from sparkdrain.rounds.sides.doors import Doors, View
from sparkdrain.rounds.sides.gate import BackGate, FrontGate, Gate
from sparkdrain.rounds.sides.parking import Parking
from sparkdrain.rounds.sides.sorting import GroupSorter, RunSorter
from sparkdrain.rounds.sides.stream import SideStream, TriggeredStream, side_stream_for
from sparkdrain.rounds.sources.restrictions import RestrictionInput
from sparkdrain.stages.shards.inputs import ElementInput
from sparkdrain.watermarks.frontier import least

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from sparkdrain.graph.plan import Edge, SideInput, Stage, TransformId
    from sparkdrain.rounds.context import Context
    from sparkdrain.side_inputs.windows import WindowedContent
    from sparkdrain.stages.shards.input import Input
    from sparkdrain.stages.shards.shard import Shard
    from sparkdrain.stages.shards.source import Source
    from sparkdrain.stages.shards.turn import Turn

# The part of a slot's memory in which a gate keeps the blocks of a round.
_SHARE = 16


class Sides:
    """All side inputs of a level in one slot."""

    def __init__(self, context: Context, edges: Iterable[Edge]) -> None:
        self._context = context
        self.streams: dict[EdgeId, SideStream] = {
            edge.id: side_stream_for(context, edge)
            for edge in edges
            if edge.kind is EdgeKind.BROADCAST
        }
        self._gates: dict[EdgeId, list[tuple[Gate, Shard]]] = {edge: [] for edge in self.streams}
        for edge, stream in self.streams.items():
            stream.passed = partial(self._passed, edge)

    def content(self, edge: int) -> WindowedContent:
        """What is read of a side input."""
        return self.streams[EdgeId(edge)].content

    def begin(self, frontiers: Mapping[int, int]) -> None:
        """A round begins, before which the frontiers of edges were at these times."""
        for edge, stream in self.streams.items():
            stream.begin(frontiers[edge])

    def change(self, stage: Stage) -> bool:
        """Whether a side input of a stage may change after it was ready, in its one window."""
        return any(
            isinstance(self.streams[side.edge], TriggeredStream) for side in stage.side_inputs
        )

    def run(self, turns: Mapping[EdgeId, Turn], shards: Iterable[Shard]) -> None:
        """All blocks of the round were taken: see what is ready now, before anything is fed."""
        for edge, stream in self.streams.items():
            stream.process(turns[edge])
            stream.advance(turns[edge])
        changed = {edge for edge, stream in self.streams.items() if stream.content.changed}
        for shard in shards:
            if shard.opened and any(side.edge in changed for side in shard.stage.side_inputs):
                shard.opened.forget_side_inputs()
        for edge in changed:
            self.streams[edge].content.changed = False

    def expire(self) -> None:
        """The round's elements were processed: drop windows that will not be read again."""
        for stream in self.streams.values():
            if stream.keeps is not None:
                stream.content.forget(stream.passed())

    def passed(self) -> dict[int, int]:
        """The time up to which windows of a side input are not read any more, by edge."""
        return {edge: self._passed(edge) for edge in self.streams}

    def _passed(self, edge: EdgeId) -> int:
        # What is in flight may be behind its gate, and yet before the transform that reads.
        return least(min(gate.passed(), shard.held()) for gate, shard in self._gates[edge])

    def wakes(self) -> list[int]:
        """The processing times at which side inputs change by themselves."""
        wakes = (stream.wake() for stream in self.streams.values())
        return [wake for wake in wakes if wake is not None]

    def take_dropped(self) -> dict[EdgeId, int]:
        """See ``Input``, by edge; what every slot has dropped counts once."""
        dropped = {edge: stream.take_dropped() for edge, stream in self.streams.items()}
        return dropped if self._context.slot == 0 else {}

    def commit(self) -> None:
        """What happened in the last round counts."""
        for stream in self.streams.values():
            stream.commit()

    def close(self) -> None:
        """Gives back what side inputs have."""
        for stream in self.streams.values():
            stream.close()

    # --- gates --------------------------------------------------------------------------------

    def gated(
        self, edge: Edge, stage: Stage, source: Source, make: Callable[[Source], Input]
    ) -> Input:
        """The input that ``make`` makes, with a gate if its elements may have to wait."""
        waits = [side for side in stage.side_inputs if side.main == edge.id]
        if not waits:
            return make(source)
        reader = next(transform for transform, read in stage.sources if read == edge.id)
        (read,) = _transform(stage, reader).outputs.values()
        main = replace(edge, pcollection=PCollectionId(read))
        codings = self._context.codings
        windowing = codings.windowing(main)
        doors = Doors(
            [self._view(stage, side) for side in waits], windowing.allowed_lateness.micros
        )
        parking = Parking(self._context.overlay, parked_state_id(edge.id))
        gate: FrontGate | BackGate
        if edge.kind is EdgeKind.GROUP:
            gate = BackGate(make, source, doors, parking, codings.groups(main))
        else:
            sorter: RunSorter | GroupSorter = RunSorter(doors, codings.elements(main))
            if edge.kind is EdgeKind.KEYED:
                values = codings.coder(main).value_coder()
                sorter = GroupSorter(doors, codings.elements(main, values))
            room = self._context.options.memory_bytes // _SHARE
            blocks = RoundBlocks(room, lambda: self._context.directory)
            inner = make(source)
            feed = source.feed_windowed if isinstance(inner, ElementInput) else None
            lasting = isinstance(inner, RestrictionInput)
            gate = FrontGate(inner, doors, parking, sorter, blocks, feed, lasting=lasting)
        for side in waits:
            self._gates[side.edge].append((gate, source.shard))
        return gate

    def _view(self, stage: Stage, side: SideInput) -> View:
        proto = _transform(stage, side.transform)
        payload = beam_runner_api_pb2.ParDoPayload.FromString(proto.spec.payload)
        proto_of_side = payload.side_inputs[side.tag]
        edge = next(e for e in self._context.plan.edges if e.id == side.edge)
        windowing = self._context.codings.windowing(edge)
        if proto_of_side.window_mapping_fn.urn == python_urns.PICKLED_WINDOW_MAPPING_FN:
            mapping = SideInputData.from_runner_api(proto_of_side, None).window_mapping_fn
        else:
            # Other SDKs' functions cannot be read here. They map as Beam does by default.
            mapping = default_window_mapping_fn(windowing.windowfn)
        return View(self.streams[side.edge], windowing, mapping)


def _transform(stage: Stage, id_: TransformId) -> beam_runner_api_pb2.PTransform:
    return beam_runner_api_pb2.PTransform.FromString(dict(stage.transforms)[id_])
