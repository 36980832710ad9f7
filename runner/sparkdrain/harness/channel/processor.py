"""Runs bundles in an SDK harness of Beam's: by generated code, as far as that can be."""

from __future__ import annotations

import collections
from typing import TYPE_CHECKING, Any

from apache_beam.portability.api import beam_fn_api_pb2, beam_runner_api_pb2

from sparkdrain.graph import urns
from sparkdrain.harness.beam import (
    FLUSHED_AT,
    BeamTransformFactory,
    BundleProcessor,
    DataInputOperation,
    bundle_processor,
    create_pardo_operation,
)
from sparkdrain.harness.channel.source import ChannelSource
from sparkdrain.harness.combining import COMBINES
from sparkdrain.harness.compiled.chain import CompiledOperation
from sparkdrain.harness.compiled.tracker import StepTimes, StepTracker
from sparkdrain.harness.dofn import DoFnHandle, load_dofn
from sparkdrain.harness.tree import made_operations
from sparkdrain.shuffle.coding import metadata_coder

if TYPE_CHECKING:
    from collections.abc import Callable

    from apache_beam.portability.api import metrics_pb2

    from sparkdrain.harness.compiled.steps import Steps

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


def compile_bundles() -> None:
    """Have Beam's harness in this process run bundles by ``ChannelProcessor``."""
    bundle_processor.BundleProcessor = ChannelProcessor


class ChannelProcessor(BundleProcessor):
    """Beam's, whose chains of simple steps are compiled.

    Nothing is compiled if samples are taken of elements, as only Beam's operations take them, or
    if the channel sends what it has after some time, for it may then be amid an element.
    """

    state_sampler: Any

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._dofns: dict[str, DoFnHandle] = {}
        self._times: StepTimes | None = None
        self.ops: collections.OrderedDict[str, Any] = collections.OrderedDict()
        try:
            super().__init__(*args, **kwargs)
        except BaseException:
            self._close()
            raise
        for op in self.ops.values():
            if isinstance(op, DataInputOperation) and len(op.consumer) == 1:
                (chain,) = op.consumer
                if isinstance(chain, CompiledOperation):
                    ChannelSource(op, chain)

    def create_execution_tree(
        self, descriptor: beam_fn_api_pb2.ProcessBundleDescriptor
    ) -> collections.OrderedDict[str, Any]:
        """Operations by transform id, producers before consumers."""
        limit = getattr(self.data_channel_factory, "_data_buffer_time_limit_ms", 0)
        if self.data_sampler is not None or limit > 0:
            return super().create_execution_tree(descriptor)
        sampler = self.state_sampler
        factory = ChannelFactory(
            self.runner_capabilities,
            descriptor,
            self.data_channel_factory,
            self.counter_factory,
            sampler,
            self.state_handler,
            None,
        )
        self.timers_info = factory.extract_timers_info()
        factory.dofns = self._dofns
        # It is the sampler from now on: of Beam's bundles, and of what tells of them.
        self.state_sampler = factory.tracker = StepTracker(sampler)
        self._times = StepTimes(factory.tracker.look)
        return made_operations(descriptor, factory, compiled=True)

    def process_bundle(self, *args: Any, **kwargs: Any) -> Any:
        """Run a bundle."""
        if self._times is not None:
            self._times.start()
        return super().process_bundle(*args, **kwargs)

    def monitoring_infos(self) -> list[metrics_pb2.MonitoringInfo]:
        """What was counted in this bundle until now."""
        infos = super().monitoring_infos()
        return infos if self._times is None else self._times.shared_out(infos)

    def reset(self) -> None:
        """Forget what was counted."""
        super().reset()
        if self._times is not None:
            self._times.forget()

    def shutdown(self) -> None:
        """Tear the DoFns down."""
        self._close()
        super().shutdown()

    def _close(self) -> None:
        if self._times is not None:
            self._times.stop()
        for handle in self._dofns.values():
            handle.close()


class ChannelSink:
    """Writes what Beam's ``DataOutputOperation`` would write, to the same stream.

    The metadata of elements (time, windows and pane) is encoded once for those that share it.
    """

    def __init__(self, operation: Any) -> None:
        self._operation = operation
        coder = operation.windowed_coder
        self._encode = coder.wrapped_value_coder.get_impl().encode_to_stream
        self._encode_metadata = metadata_coder(coder.window_coder).get_impl().encode
        self._context: Any = None
        self._metadata = b""

    def write(self, value: Any, context: Any) -> None:
        """Write an element.

        Raises:
            Exception: the coder of the PCollection cannot encode it.
        """
        if context is not self._context:
            self._metadata = self._encode_metadata(context.with_value(None))
            self._context = context
        stream = self._operation.output_stream
        stream.write(self._metadata)
        self._encode(value, stream, True)
        if stream.size() > FLUSHED_AT:
            stream.maybe_flush()
