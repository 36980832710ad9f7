"""A stage as an SDK harness gets it: Beam's ``ProcessBundleDescriptor``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from apache_beam.portability.api import beam_fn_api_pb2, beam_runner_api_pb2, endpoints_pb2

from sparkdrain.graph import urns
from sparkdrain.graph.beam import proto_utils
from sparkdrain.graph.environments import is_go
from sparkdrain.graph.plan import EdgeKind
from sparkdrain.graph.wire import WireCoders, has_pairs

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from sparkdrain.graph.plan import Edge, EdgeId, Stage

_GO_INJECT: Final = "beam:go:transform:inject:v1"


def descriptor_for(
    stage: Stage,
    edges: Mapping[EdgeId, Edge],
    components: beam_runner_api_pb2.Components,
    endpoint: str,
    id_: str,
    *,
    groups_in_state: bool = False,
) -> beam_fn_api_pb2.ProcessBundleDescriptor:
    """The descriptor of a stage.

    Args:
        edges: all of the plan, by id.
        endpoint: where the harness finds data and state.
        groups_in_state: whether a group may have a token in place of its values.
    """
    own = beam_runner_api_pb2.Components()
    own.CopyFrom(components)
    wire = WireCoders(own)
    transforms: dict[str, beam_runner_api_pb2.PTransform] = {}
    for transform, serialized in stage.transforms:
        transforms[transform] = beam_runner_api_pb2.PTransform.FromString(serialized)
    coded = {
        pcollection: wire.of_values(own.pcollections[pcollection].coder_id)
        for proto in transforms.values()
        for pcollection in (*proto.inputs.values(), *proto.outputs.values())
    }

    def port(coder: str, pcollection: str) -> bytes:
        return beam_fn_api_pb2.RemoteGrpcPort(
            api_service_descriptor=descriptor_of(endpoint),
            coder_id=wire.windowed(coder, pcollection),
        ).SerializeToString()

    for transform, edge in stage.sources:
        (pcollection,) = transforms[transform].outputs.values()
        known = None if edge is None else edges[edge]
        coder = _read(known, pcollection, components, wire)
        # What a harness says of an element, or of its key, it says in this coder too.
        coded[pcollection] = coder
        if groups_in_state and known is not None and known.kind is EdgeKind.GROUP:
            # What it says may outlive the bundle, and so the token.
            pairs = components.pcollections[known.pcollection].coder_id
            coder = wire.group(pairs, in_state=True)
        spec = transforms[transform].spec
        spec.urn, spec.payload = urns.CHANNEL_SOURCE, port(coder, pcollection)
    for transform, edge in stage.sinks:
        (pcollection,) = transforms[transform].inputs.values()
        coder = _element(edges[edge], components, wire)
        spec = transforms[transform].spec
        spec.urn, spec.payload = urns.CHANNEL_SINK, port(coder, pcollection)
    for side in stage.side_inputs:
        pcollection = transforms[side.transform].inputs[side.tag]
        coded[pcollection] = _element(edges[side.edge], components, wire)
    of_go = is_go(components.environments[stage.environment])
    for proto in transforms.values():
        # To Java's harness, what has parts is a composite, and no composite does anything.
        proto.ClearField("subtransforms")
        _code_state(proto, wire, of_go=of_go)
    for pcollection in _read_as_written(transforms.values()):
        coded[pcollection] = own.pcollections[pcollection].coder_id
    descriptor = beam_fn_api_pb2.ProcessBundleDescriptor(
        id=id_,
        transforms=transforms,
        windowing_strategies=own.windowing_strategies,
        coders=own.coders,
        environments=own.environments,
        state_api_service_descriptor=descriptor_of(endpoint),
        timer_api_service_descriptor=descriptor_of(endpoint),
    )
    for pcollection, coder in coded.items():
        copy = descriptor.pcollections[pcollection]
        copy.CopyFrom(own.pcollections[pcollection])
        copy.coder_id = coder
    return descriptor


def _read_as_written(transforms: Iterable[beam_runner_api_pb2.PTransform]) -> set[str]:
    """The PCollections whose values Go writes in their coder, and reads in the program's."""
    found: set[str] = set()
    for proto in transforms:
        if proto.spec.urn == urns.PAR_DO:
            payload = proto_utils.parse_Bytes(proto.spec.payload, beam_runner_api_pb2.ParDoPayload)
            if payload.do_fn.urn == _GO_INJECT:
                found.update(proto.inputs.values())
    return found


def _code_state(proto: beam_runner_api_pb2.PTransform, wire: WireCoders, *, of_go: bool) -> None:
    """Have timers say their keys with their lengths, as elements do; and Go's lists their items."""
    if proto.spec.urn != urns.PAR_DO:
        return
    payload = proto_utils.parse_Bytes(proto.spec.payload, beam_runner_api_pb2.ParDoPayload)
    for family in payload.timer_family_specs.values():
        family.timer_family_coder_id = wire.timer(family.timer_family_coder_id)
    for state in payload.state_specs.values():
        if of_go and state.HasField("ordered_list_spec"):
            items = state.ordered_list_spec
            items.element_coder_id = wire.whole(items.element_coder_id)
    proto.spec.payload = payload.SerializeToString()


def _element(edge: Edge, components: beam_runner_api_pb2.Components, wire: WireCoders) -> str:
    """The coder of what is written to an edge."""
    coder = components.pcollections[edge.pcollection].coder_id
    return wire.pair(coder) if has_pairs(edge, components) else wire.whole(coder)


def _read(
    edge: Edge | None,
    pcollection: str,
    components: beam_runner_api_pb2.Components,
    wire: WireCoders,
) -> str:
    """The coder of what comes from an edge, or from a root."""
    if edge is None:
        return wire.whole(components.pcollections[pcollection].coder_id)
    if edge.kind is EdgeKind.GROUP:
        return wire.group(components.pcollections[edge.pcollection].coder_id)
    return _element(edge, components, wire)


def descriptor_of(url: str) -> endpoints_pb2.ApiServiceDescriptor:
    """An address as Beam writes it."""
    return endpoints_pb2.ApiServiceDescriptor(url=url)
