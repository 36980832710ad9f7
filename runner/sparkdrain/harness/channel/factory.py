"""Builds the operations of a bundle; where a chain can be compiled, the slot's own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from apache_beam.portability.api import beam_runner_api_pb2

from sparkdrain.graph import urns
from sparkdrain.harness.beam import BeamTransformFactory, create_pardo_operation
from sparkdrain.harness.dofn import DoFnHandle, load_dofn
from sparkdrain.harness.factory import StageFactory

if TYPE_CHECKING:
    from collections.abc import Callable

    from sparkdrain.harness.compiled.tracker import StepTracker

_BEAMS = BeamTransformFactory._known_urns  # noqa: SLF001
_OURS = StageFactory._known_urns  # noqa: SLF001


class ChannelFactory(BeamTransformFactory):
    """Beam's operation factory, with DoFns that are loaded once and the slot's combines."""

    _known_urns = {  # noqa: RUF012
        **_BEAMS,
        **{urn: _OURS[urn] for urn in (urns.MERGE_ACCUMULATORS, urns.EXTRACT_OUTPUTS)},
    }

    dofns: dict[str, DoFnHandle]
    entry: Callable[[str], Any]
    """What the producers of a transform see of it."""
    tracker: StepTracker
    steps: Any = None

    name = StageFactory.name


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


@ChannelFactory.register_urn(urns.PRECOMBINE, beam_runner_api_pb2.CombinePayload)
def create_precombine(
    factory: ChannelFactory,
    transform_id: str,
    proto: beam_runner_api_pb2.PTransform,
    payload: beam_runner_api_pb2.CombinePayload,
    consumers: dict[str, list[Any]],
) -> Any:
    """The first phase of a lifted combine; Beam's if the coder of its pairs shows no key."""
    shows_key = factory.get_only_input_coder(proto).wrapped_value_coder.is_kv_coder()
    create, _ = (_OURS if shows_key else _BEAMS)[urns.PRECOMBINE]
    return create(factory, transform_id, proto, payload, consumers)
