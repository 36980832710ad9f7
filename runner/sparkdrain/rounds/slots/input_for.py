"""Which input an edge, or the beginning of a pipeline, is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sparkdrain.graph.plan import EdgeKind, TransformId
from sparkdrain.graph.state_ids import edge_state_id, stable_state_id, truncated_state_ids
from sparkdrain.panes.choose import grouping_for
from sparkdrain.rounds.inputs import ElementInput, FeedInput, GroupInput, ImpulseInput
from sparkdrain.rounds.keyed.state import keyed_input_for
from sparkdrain.rounds.sides.gate import Gate
from sparkdrain.rounds.sources.residuals import ResidualStore
from sparkdrain.rounds.sources.restrictions import RestrictionInput, processed_by
from sparkdrain.rounds.stable import StableInput

if TYPE_CHECKING:
    from sparkdrain.graph.plan import Edge, Stage
    from sparkdrain.rounds.inputs import Input
    from sparkdrain.rounds.slots.slot import RoundSlot
    from sparkdrain.stages.shard import Source


def source_input_for(
    slot: RoundSlot, stage: Stage, transform: TransformId, source: Source
) -> Input:
    """The input for a transform without any."""
    mine = slot.context.is_first_for(stage)
    for played in slot.context.plan.played:
        if played.transform == transform:
            return FeedInput(slot.context.codings.coder_of(played.coder), source, mine=mine)
    return ImpulseInput(source, mine=mine)


def input_for(slot: RoundSlot, edge: Edge, stage: Stage, source: Source) -> Input:
    """The input that ``edge`` is for ``stage``, through ``source``."""
    input_ = slot.sides.gated(edge, stage, source, lambda into: _input_for(slot, edge, stage, into))
    if not edge.stable:
        return input_
    return StableInput(
        input_,
        slot.context.overlay,
        stable_state_id(edge.id),
        slot.coverage,
        lambda more: source.tell_more(TransformId(edge.step), more=more),
    )


def _input_for(slot: RoundSlot, edge: Edge, stage: Stage, source: Source) -> Input:
    codings = slot.context.codings
    match edge.kind:
        case EdgeKind.SPREAD if (transform := processed_by(stage, source.transform)) is not None:
            coding = codings.elements(edge)
            return RestrictionInput(
                coding,
                source,
                transform,
                ResidualStore(slot.context.overlay, edge_state_id(edge.id), coding.windowed),
                [
                    ResidualStore(slot.context.overlay, id_, coding.windowed)
                    for id_ in truncated_state_ids(edge.id)
                ],
                lambda: _restrictions(slot),
                _firing(slot, edge),
            )
        case EdgeKind.FORWARD | EdgeKind.SPREAD:
            return ElementInput(codings.elements(edge), source)
        case EdgeKind.GROUP:
            coder = codings.coder(edge)
            grouping = grouping_for(
                codings.windowing(edge),
                coder.key_coder(),
                codings.elements(edge, coder.value_coder()),
                slot.context.overlay,
                edge_state_id(edge.id),
                slot.context.options.memory_bytes,
                lambda: slot.context.directory,
            )
            return GroupInput(grouping, source, edge_state_id(edge.id))
        case EdgeKind.KEYED:
            return keyed_input_for(slot.context, edge, stage, source)
        case _:
            raise NotImplementedError(edge.kind)


def has_untruncated(slot: RoundSlot) -> bool:
    """Whether restrictions of a slot wait for truncation."""
    return any(input_.untruncated for input_ in _restrictions(slot))


def _restrictions(slot: RoundSlot) -> list[RestrictionInput]:
    """All sources of a slot, in the order in which they have their turns."""
    inputs = (input_.inner if isinstance(input_, Gate) else input_ for input_ in slot.inputs())
    return [input_ for input_ in inputs if isinstance(input_, RestrictionInput)]


def _firing(slot: RoundSlot, edge: Edge) -> int:
    """Whether timers need a part of the budget of the level that ``edge`` leads to."""
    kinds = {other.kind for other in slot.context.plan.edges_into(edge.consumer)}
    return int(bool(kinds & {EdgeKind.GROUP, EdgeKind.KEYED}))
