"""A leaf transform of an optimized pipeline, and what the planner asks about it."""

from __future__ import annotations

from dataclasses import dataclass

from apache_beam.portability.api import beam_runner_api_pb2

from sparkdrain.graph import urns
from sparkdrain.graph.beam import proto_utils
from sparkdrain.graph.plan import PCollectionId, TransformId

_SIDE_MULTIMAP = "beam:side_input:multimap:v1"


@dataclass(slots=True)
class Transform:
    """A leaf transform of the optimized pipeline."""

    id: TransformId
    proto: beam_runner_api_pb2.PTransform
    side_tags: frozenset[str] = frozenset()
    multimap_tags: frozenset[str] = frozenset()
    keyed: bool = False
    time_sorted: bool = False
    restrictions: bool = False
    """Streaming: takes restrictions, which the runner keeps between rounds."""
    gated: bool = False
    """Streaming: elements may have to wait for side inputs."""
    requires_stable_input: bool = False
    """Must never see other elements when it is run again."""
    stable: bool = False
    """Streaming: elements wait for a checkpoint."""
    level: int = 0
    place: str = ""
    """The environment outside of the slot's process in which it runs; "": in that process."""

    @property
    def cut(self) -> bool:
        """Whether its main input never comes from a transform of the same stage."""
        return self.keyed or self.restrictions or self.gated or self.stable

    @property
    def own_edge(self) -> str:
        """Set if no other transform may read the edge of its main input."""
        return self.id if self.restrictions or self.gated or self.stable else ""

    @property
    def inputs(self) -> list[tuple[str, PCollectionId]]:
        """Tags and PCollections, sorted: a map of a proto has another order in each process."""
        return [(tag, PCollectionId(name)) for tag, name in sorted(self.proto.inputs.items())]

    @property
    def main_inputs(self) -> list[PCollectionId]:
        """What is not a side input."""
        return [pcollection for tag, pcollection in self.inputs if tag not in self.side_tags]

    @property
    def outputs(self) -> list[PCollectionId]:
        """What it makes."""
        return [PCollectionId(pcollection) for pcollection in self.proto.outputs.values()]

    @property
    def is_runner(self) -> bool:
        """Whether the runner carries it out itself, between two levels."""
        return self.proto.spec.urn in urns.RUNNER


def describe(id_: TransformId, proto: beam_runner_api_pb2.PTransform) -> Transform:
    """A transform as its proto says it is."""
    if proto.spec.urn not in urns.PAR_DO_LIKE:
        return Transform(id_, proto)
    payload = proto_utils.parse_Bytes(proto.spec.payload, beam_runner_api_pb2.ParDoPayload)
    keyed = bool(payload.state_specs or payload.timer_family_specs)
    return Transform(
        id_,
        proto,
        side_tags=frozenset(payload.side_inputs),
        multimap_tags=frozenset(
            tag
            for tag, side in payload.side_inputs.items()
            if side.access_pattern.urn == _SIDE_MULTIMAP
        ),
        keyed=keyed or payload.requires_time_sorted_input,
        time_sorted=payload.requires_time_sorted_input,
        requires_stable_input=payload.requires_stable_input,
    )
