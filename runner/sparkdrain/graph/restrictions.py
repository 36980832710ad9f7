"""Which edges of a plan bring restrictions of splittable DoFns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apache_beam.portability.api import beam_runner_api_pb2

from sparkdrain.graph import urns

if TYPE_CHECKING:
    from sparkdrain.graph.plan import Stage, TransformId


def processed_by(stage: Stage, source: TransformId) -> TransformId | None:
    """The transform that processes the restrictions which come in at ``source``, if any does."""
    protos = {
        id_: beam_runner_api_pb2.PTransform.FromString(data) for id_, data in stage.transforms
    }
    outputs = set(protos[source].outputs.values())
    for id_, proto in protos.items():
        if proto.spec.urn == urns.PROCESS_RESTRICTIONS and outputs & set(proto.inputs.values()):
            return id_
    return None


def has_restrictions(stage: Stage) -> bool:
    """Whether an edge brings restrictions into a stage."""
    return any(
        edge is not None and processed_by(stage, source) is not None
        for source, edge in stage.sources
    )
