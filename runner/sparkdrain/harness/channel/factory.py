"""Builds the operations of a bundle; where a chain can be compiled, the slot's own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from apache_beam.portability.api import beam_fn_api_pb2, beam_runner_api_pb2

from sparkdrain.graph import urns
from sparkdrain.harness.beam import BeamTransformFactory, create_pardo_operation
from sparkdrain.harness.channel.sink import ChannelSink
from sparkdrain.harness.combining import COMBINES
from sparkdrain.harness.dofn import DoFnHandle, load_dofn

if TYPE_CHECKING:
    from collections.abc import Callable

    from sparkdrain.harness.compiled.steps import Steps
    from sparkdrain.harness.compiled.tracker import StepTracker

_BEAMS = BeamTransformFactory._known_urns  # noqa: SLF001


class ChannelFactory(BeamTransformFactory):
    """Beam's operation factory, with DoFns that are loaded once and the slot's combines."""

    # A copy: Beam's is for those that run in its harness.
    _known_urns = dict(_BEAMS)  # noqa: RUF012

    dofns: dict[str, DoFnHandle]
    entry: Callable[[str], Any]
    """What the producers of a transform see of it."""
    tracker: StepTracker
    steps: Steps


@ChannelFactory.register_urn(urns.PAR_DO, beam_runner_api_pb2.ParDoPayload)
def create_par_do(
    factory: ChannelFactory,
    transform_id: str,
    proto: beam_runner_api_pb2.PTransform,
    payload: beam_runner_api_pb2.ParDoPayload,
    consumers: dict[str, list[Any]],
) -> Any:
    """A ParDo; one that needs more than elements is Beam's alone."""
    if not (payload.side_inputs or payload.state_specs or payload.timer_family_specs):
        handle = load_dofn(factory, transform_id, proto, payload)
        if handle.concurrent is None and handle.hook is None:
            factory.dofns[transform_id] = handle
            return create_pardo_operation(
                factory, transform_id, proto, consumers, handle.serialized, payload
            )
        handle.close()
    create, _ = _BEAMS[urns.PAR_DO]
    return create(factory, transform_id, proto, payload, consumers)


@ChannelFactory.register_urn(urns.CHANNEL_SINK, beam_fn_api_pb2.RemoteGrpcPort)
def create_sink(
    factory: ChannelFactory,
    transform_id: str,
    proto: beam_runner_api_pb2.PTransform,
    port: beam_fn_api_pb2.RemoteGrpcPort,
    consumers: dict[str, list[Any]],
) -> Any:
    """Beam's end of a stage; a compiled chain writes by its ``writer`` instead."""
    create, _ = _BEAMS[urns.CHANNEL_SINK]
    operation = create(factory, transform_id, proto, port, consumers)
    operation.writer = ChannelSink(operation)
    return operation


for _urn, _create in COMBINES.items():
    ChannelFactory.register_urn(_urn, beam_runner_api_pb2.CombinePayload)(_create)
