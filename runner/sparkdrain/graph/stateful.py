"""Which DoFns behind a KEYED edge keep state or timers, and under which number."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from apache_beam.portability.api import beam_runner_api_pb2

from sparkdrain.graph import urns
from sparkdrain.graph.state_ids import transform_state_id

if TYPE_CHECKING:
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
    protos = {
        id_: beam_runner_api_pb2.PTransform.FromString(data) for id_, data in stage.transforms
    }
    fed = set(protos[source].outputs.values())
    found = []
    for id_, proto in protos.items():
        if proto.spec.urn == urns.PAR_DO and fed.intersection(proto.inputs.values()):
            payload = beam_runner_api_pb2.ParDoPayload.FromString(proto.spec.payload)
            if payload.state_specs or payload.timer_family_specs:
                found.append(Stateful(id_, transform_state_id(plan, id_)))
    return found
