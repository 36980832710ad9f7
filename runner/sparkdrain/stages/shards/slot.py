"""The stages of one level in one slot: what goes into them, and where their output goes."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from sparkdrain.graph.plan import EdgeId
from sparkdrain.stages.shards.source import Source

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from sparkdrain.graph.plan import Edge, Plan, Stage, TransformId
    from sparkdrain.shuffle.blocks import Block
    from sparkdrain.shuffle.complete import Completeness
    from sparkdrain.stages.shards.input import Input
    from sparkdrain.stages.shards.shard import Shard

_LOGGER = logging.getLogger(__name__)


class Slot:
    """The shards of one level in one slot, their inputs, and the writers of what they make.

    A batch job has one for each task. A streaming job makes a new one after a round that was
    undone: nothing here counts that is not committed.

    Args:
        writers: one for each edge that leads out of the level.
        make_input: makes the input that an edge is, or that a root of a stage is. It gets the
            stage, the transform at which elements enter, the edge (None for a root) and the source.
        only: an edge; the slot has its stage with this input alone. None: it has all of the level.
    """

    def __init__(
        self,
        plan: Plan,
        level: int,
        writers: Mapping[EdgeId, Any],
        make_shard: Callable[[Stage], Shard],
        make_input: Callable[[Stage, TransformId, Edge | None, Source], Input],
        only: EdgeId | None = None,
    ) -> None:
        self.writers = writers
        self.shards: list[Shard] = []
        self.inputs: dict[EdgeId, Input] = {}
        """What takes the blocks of an edge, by edge."""
        edges = {edge.id: edge for edge in plan.edges_into(level)}
        for stage in plan.levels[level]:
            sources = [(t, id_) for t, id_ in stage.sources if only is None or id_ == only]
            if only is not None and not sources:
                continue
            shard = make_shard(stage)
            self.shards.append(shard)
            for transform, id_ in sources:
                edge = None if id_ is None else edges[id_]
                input_ = make_input(stage, transform, edge, Source(shard, transform))
                shard.inputs.append((id_, input_))
                if edge is not None:
                    self.inputs[edge.id] = input_
                    shard.steps[id_] = edge.step

    def take(
        self,
        records: Iterable[bytes],
        complete: Completeness,
        keeps: Callable[[Block], bool] = lambda _: False,
    ) -> None:
        """Give blocks to the inputs of their edges, and count all that comes.

        Args:
            records: blocks and end messages.
            complete: counts.
            keeps: takes a block if it is not for the input yet.
        """
        for block in complete.blocks(records):
            if not keeps(block):
                self.inputs[EdgeId(block.edge)].take(block.payload)

    def in_turn(self) -> Iterator[Input]:
        """All inputs of stages, in the order in which they have their turns."""
        return (input_ for shard in self.shards for _, input_ in shard.inputs)

    def flush(self, shard: Shard | None = None) -> None:
        """Send what writers have, those of all stages or those of one."""
        if shard is None:
            for writer in self.writers.values():
                writer.flush()
            return
        for _, edge in shard.stage.sinks:
            self.writers[edge].flush()

    def metrics(self) -> list[bytes]:
        """Serialized ``MonitoringInfo`` protos of all stages."""
        return [metric for shard in self.shards for metric in shard.metrics()]

    def close(self, *more: Callable[[], object]) -> Exception | None:
        """Tear all stages down, after ``more``: none is kept from its end by another.

        Returns:
            The first error. All are logged.
        """
        first = None
        for teardown in (*more, *(shard.close for shard in self.shards)):
            try:
                teardown()
            except Exception as error:
                _LOGGER.exception("teardown failed")
                first = error if first is None else first
        return first
