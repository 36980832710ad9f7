"""Which input an edge, or the beginning of a pipeline, is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sparkdrain.graph.plan import EdgeKind
from sparkdrain.graph.state_ids import edge_state_id
from sparkdrain.panes import grouping_for
from sparkdrain.rounds.inputs import ElementInput, GroupInput, ImpulseInput

if TYPE_CHECKING:
    from sparkdrain.graph.plan import Edge, Stage, TransformId
    from sparkdrain.rounds.inputs import Input
    from sparkdrain.rounds.slot import RoundSlot
    from sparkdrain.stages.shard import Source


def source_input_for(
    slot: RoundSlot, stage: Stage, transform: TransformId, source: Source
) -> Input:
    """The input for a transform without any."""
    return ImpulseInput(source, mine=slot.is_first_for(stage))


def input_for(slot: RoundSlot, edge: Edge, stage: Stage, source: Source) -> Input:
    """The input that ``edge`` is for ``stage``, through ``source``."""
    codings = slot.codings
    match edge.kind:
        case EdgeKind.FORWARD | EdgeKind.SPREAD:
            return ElementInput(codings.elements(edge), source)
        case EdgeKind.GROUP:
            coder = codings.coder(edge)
            grouping = grouping_for(
                codings.windowing(edge),
                coder.key_coder(),
                coder.value_coder(),
                codings.window_coder(edge),
                slot.overlay,
                edge_state_id(edge.id),
                slot.options.memory_bytes,
                slot.directory,
            )
            return GroupInput(grouping, source)
        case _:
            raise NotImplementedError(edge.kind)
