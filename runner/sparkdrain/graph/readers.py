"""Which transforms of a stage read an edge that brings restrictions, or elements by key."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from apache_beam.portability.api import beam_runner_api_pb2

from sparkdrain.graph import urns
from sparkdrain.graph.state_ids import transform_state_id

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sparkdrain.graph.plan import Edge, Plan, Stage, TransformId


@dataclass(frozen=True, slots=True)
class Stateful:
    """A DoFn with state or timers.

    Attributes:
        transform: the DoFn's transform.
        state_id: the number under which its state is in a store, see ``graph.state_ids``.
    """

    transform: TransformId
    state_id: int


def stateful_behind(plan: Plan, stage: Stage, edge: Edge) -> list[Stateful]:
    """The DoFns with state or timers that read ``edge`` in ``stage``."""
    (source,) = (transform for transform, id_ in stage.sources if id_ == edge.id)
    found = []
    for id_, proto in _readers(stage, source):
        if proto.spec.urn == urns.PAR_DO:
            payload = beam_runner_api_pb2.ParDoPayload.FromString(proto.spec.payload)
            if payload.state_specs or payload.timer_family_specs:
                found.append(Stateful(id_, transform_state_id(plan, id_)))
    return found


def processed_by(stage: Stage, source: TransformId) -> TransformId | None:
    """The transform that processes the restrictions which come in at ``source``, if any does."""
    for id_, proto in _readers(stage, source):
        if proto.spec.urn == urns.PROCESS_RESTRICTIONS:
            return id_
    return None


def has_restrictions(stage: Stage) -> bool:
    """Whether an edge brings restrictions into a stage."""
    return any(
        edge is not None and processed_by(stage, source) is not None
        for source, edge in stage.sources
    )


def _readers(
    stage: Stage, source: TransformId
) -> Iterator[tuple[TransformId, beam_runner_api_pb2.PTransform]]:
    """The transforms that read what comes in at ``source``."""
    protos = protos_of(stage)
    fed = set(protos[source].outputs.values())
    for id_, proto in protos.items():
        if fed.intersection(proto.inputs.values()):
            yield id_, proto


def protos_of(stage: Stage) -> dict[TransformId, beam_runner_api_pb2.PTransform]:
    """The transforms of a stage, each parsed anew."""
    parse = beam_runner_api_pb2.PTransform.FromString
    return {id_: parse(data) for id_, data in stage.transforms}
