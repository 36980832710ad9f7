"""One slot of one level: opens its stages' bundles, feeds them, and closes them in order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from apache_beam.portability.api import beam_runner_api_pb2
from apache_beam.runners import pipeline_context
from apache_beam.transforms.window import GlobalWindows

from sparkdrain.graph.plan import EdgeId, EdgeKind, Plan, Stage
from sparkdrain.harness.bundle import StageBundle
from sparkdrain.shuffle.blocks import Block, EndMessage, decode, encode_report
from sparkdrain.shuffle.complete import Completeness, Producer
from sparkdrain.side_inputs.state import SideInputState
from sparkdrain.stages.balance import Gift, Lending
from sparkdrain.stages.codings import Codings
from sparkdrain.stages.readers import reader_for
from sparkdrain.stages.report import SlotReport
from sparkdrain.stages.restrictions import RestrictionReader, restriction_edges
from sparkdrain.stages.shard import Shard, Source
from sparkdrain.stages.state import SlotState
from sparkdrain.stages.teardown import tear_down
from sparkdrain.stages.writers import writer_for
from sparkdrain.step_notes import read_by

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from sparkdrain.lines.endpoint import Endpoint
    from sparkdrain.shuffle.outbox import Outbox
    from sparkdrain.stages.warned import Warned

_IMPULSE = GlobalWindows.windowed_value(b"")


class Slot:
    """Runs the stages of ``level`` over the records of one slot."""

    def __init__(
        self,
        plan: Plan,
        level: int,
        slot: int,
        expected: frozenset[Producer],
        outbox: Outbox,
        options: Any,
        open_side_input: Callable[[int], Any],
        scratch: Callable[[], Path],
        balancer: Endpoint | None = None,
        warned: Sequence[Warned] = (),
    ) -> None:
        self._plan = plan
        self._level = level
        self._slot = slot
        self._outbox = outbox
        self._options = options
        self._open_side_input = open_side_input
        self._state = SlotState(plan, level, options.memory_bytes, scratch)
        self._balancer = balancer
        self._warned = warned
        self._gifts = 0
        self._complete = Completeness(expected)
        components = beam_runner_api_pb2.Components()
        components.ParseFromString(plan.components)
        self._components = components
        codings = Codings(pipeline_context.PipelineContext(components), components)
        self._writers = {
            edge.id: writer_for(edge, codings, outbox, options.block_bytes)
            for edge in plan.edges_out_of(level)
        }
        restrictions = {edge for stage in plan.levels[level] for edge in restriction_edges(stage)}
        self._readers = {
            edge.id: reader_for(
                edge,
                codings,
                options.memory_bytes,
                scratch,
                self._state,
                restrictions=edge.id in restrictions,
            )
            for edge in plan.edges_into(level)
            if edge.kind is not EdgeKind.SIDE
        }
        self._steps = {edge.id: edge.step for edge in plan.edges_into(level)}
        self._shards: list[Shard] = []
        self._sources: dict[EdgeId, list[Source]] = {}

    def run(self, records: Iterator[bytes]) -> None:
        """Process everything.

        Raises:
            TruncatedInput: not all of the input was there.
            Exception: whatever user code raises.
        """
        failed = True
        try:
            self._open()
            self._impulses()
            for record in records:
                self._take(record)
            inputs = self._complete.verify()
            self._hand_out()
            self._finish(inputs)
            failed = False
        finally:
            self._close(failed=failed)

    def help(self, gift: Gift) -> None:
        """Process restrictions that another slot gave away; see ``run``."""
        failed = True
        edge = EdgeId(gift.edge)
        try:
            self._open(only=edge)
            self._readers = {edge: self._readers[edge]}
            self._readers[edge].take(memoryview(gift.payload), self._sources[edge])
            self._hand_out()
            # Should the giver be run again, what it gave must not count.
            self._finish({(self._level, gift.slot): gift.attempt})
            failed = False
        finally:
            self._close(failed=failed)

    def _hand_out(self) -> None:
        """Hand out what was collected: grouped values, and restrictions."""
        lending = self._lend()
        try:
            for edge, reader in self._readers.items():
                with read_by(self._steps[edge]):
                    reader.hand_out(self._sources[edge])
        finally:
            if lending is not None:
                lending.close()
                self._gifts = lending.gifts

    def _lend(self) -> Lending | None:
        """Let the balancer take restrictions away while the slot works."""
        readers = [
            (edge, reader)
            for edge, reader in self._readers.items()
            if isinstance(reader, RestrictionReader)
        ]
        if self._balancer is None or not readers:
            return None

        def give(fraction: float) -> tuple[int, bytes] | None:
            for edge, reader in readers:
                payload = reader.give(fraction)
                if payload is not None:
                    return edge, payload
            return None

        return Lending(self._balancer, self._slot, self._outbox.attempt, give)

    def _open(self, only: EdgeId | None = None) -> None:
        for stage in self._plan.levels[self._level]:
            if only is not None and all(edge != only for _, edge in stage.sources):
                continue
            shard = Shard(stage, self._make_bundle)
            self._shards.append(shard)
            for transform, edge in stage.sources:
                if edge is not None:
                    self._sources.setdefault(edge, []).append(Source(shard, transform))

    def _make_bundle(self, stage: Stage) -> StageBundle:
        edges = {(side.transform, side.tag): side.edge for side in stage.side_inputs}
        return StageBundle(
            stage,
            self._components,
            self._writers,
            SideInputState(edges, self._open_side_input),
            self._state.make,
            compiled=self._options.compiled,
        )

    def _impulses(self) -> None:
        beginnings = [
            sources
            for shard in self._shards
            if (sources := [Source(shard, t) for t, edge in shard.stage.sources if edge is None])
        ]
        # Slots take turns, so that independent beginnings run beside each other.
        for sources in beginnings[self._slot :: self._outbox.layout.slots]:
            for source in sources:
                source.feed([b""], _IMPULSE)

    def _take(self, record: bytes) -> None:
        message = decode(record)
        if isinstance(message, EndMessage):
            self._complete.saw_end(message)
        elif isinstance(message, Block):
            edge, payload = EdgeId(message.edge), message.payload
            self._complete.saw_block(
                message.level, message.producer, message.edge, message.sequence, len(payload)
            )
            self._readers[edge].take(payload, self._sources[edge])

    def _finish(self, inputs: dict[Producer, int]) -> None:
        outbox = self._outbox
        for shard in self._shards:
            shard.finish()
        for writer in self._writers.values():
            writer.flush()
        outbox.end()
        for shard in self._shards:
            shard.finalize()
        outbox.send(
            outbox.layout.reports,
            encode_report(self._level, self._slot, self._report(inputs)),
        )

    def _report(self, inputs: dict[Producer, int]) -> bytes:
        metrics = [info.SerializeToString() for shard in self._shards for info in shard.infos()]
        return SlotReport(
            self._level,
            self._slot,
            self._outbox.attempt,
            inputs,
            dict(self._outbox.side_bytes),
            metrics,
            sum(writer.elements for writer in self._writers.values()),
            self._outbox.sent_bytes,
            sum(reader.spilled for reader in self._readers.values()),
            self._gifts,
            self.handled(),
            tuple(self._warned),
        ).encode()

    def handled(self) -> int:
        """How many elements the busiest PCollection of each stage has had; from any thread."""
        bundles = [shard.opened for shard in list(self._shards)]
        return sum(_busiest(bundle) for bundle in bundles if bundle is not None)

    def _close(self, *, failed: bool) -> None:
        """Tear all bundles down. An error from there counts unless there was one before."""
        error = tear_down(shard.teardown for shard in self._shards)
        for reader in self._readers.values():
            reader.close()
        self._state.close()
        if error is not None and not failed:
            raise error


def _busiest(bundle: StageBundle) -> int:
    receivers = (receiver for op in bundle.ops.values() for receiver in op.receivers)
    return max((receiver.opcounter.element_counter.value() for receiver in receivers), default=0)
