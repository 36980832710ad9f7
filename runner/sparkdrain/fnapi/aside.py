"""Small stages of the runner's own, which a harness runs beside those of the pipeline."""

from __future__ import annotations

import sys
import uuid
from typing import TYPE_CHECKING, Final

from apache_beam.coders import coders
from apache_beam.portability.api import beam_fn_api_pb2, beam_runner_api_pb2
from apache_beam.runners.pipeline_context import PipelineContext
from apache_beam.transforms.core import Windowing
from apache_beam.transforms.window import GlobalWindows
from typing_extensions import override

from sparkdrain.fnapi.descriptor import descriptor_of
from sparkdrain.fnapi.errors import failed
from sparkdrain.fnapi.outbound import Outbound
from sparkdrain.fnapi.worker import Listener
from sparkdrain.graph import urns
from sparkdrain.graph.beam import common_urns

if TYPE_CHECKING:
    from collections.abc import Container, Mapping, Sequence

    from sparkdrain.fnapi.worker import SdkWorker

_IN: Final = "in"
_OUT: Final = "out"
EMBEDDING: Final[str] = common_urns.protocols.CONTROL_REQUEST_ELEMENTS_EMBEDDING.urn
"""An SDK takes elements within a request."""
NAMED_STREAMS: Final = "beam:protocol:named_data_streams:v1"
"""An SDK has several streams of elements, each with a name."""
_STREAM: Final = "aside"
_BOUNDED: Final = beam_runner_api_pb2.IsBounded.BOUNDED
# Beam's classes here may be older than the SDK.
_REQUEST: Final = beam_fn_api_pb2.ProcessBundleRequest.DESCRIPTOR
_CAN_NAME: Final = "data_stream_id" in _REQUEST.fields_by_name
# Time, window and pane of an element that is written as its value and nothing else. Java reads a
# length before the value, which is empty.
_CONTEXT: Final = (
    coders.WindowedValueCoder(coders.BytesCoder(), coders.GlobalWindowCoder())
    .get_impl()
    .encode_nested(GlobalWindows.windowed_value(b""))
)


class StageAside:
    """A stage that takes elements, has at most one transform, and gives elements.

    Args:
        worker: the harness, which may be amid another bundle.
        coders: by id, all that the stage needs.
        begin: id of the coder by which elements come in.
        end: id of the one by which they come out.
        spec: what the transform does; None: the elements that have come in come out.
        capabilities: what the harness's SDK can do. Elements go within a request if it takes them
            there (``EMBEDDING``), or by a stream of their own (``NAMED_STREAMS``). Else those of
            another bundle that waits for this one may be in the way.
    """

    def __init__(
        self,
        worker: SdkWorker,
        coders: Mapping[str, beam_runner_api_pb2.Coder],
        begin: str,
        end: str,
        spec: beam_runner_api_pb2.FunctionSpec | None = None,
        *,
        capabilities: Container[str],
    ) -> None:
        context = PipelineContext(namespace="sparkdrain")
        strategy = context.windowing_strategies.get_id(Windowing(GlobalWindows()))
        components = context.to_runner_api()
        here = descriptor_of(worker.life.endpoint)
        window = components.windowing_strategies[strategy].window_coder_id
        descriptor = beam_fn_api_pb2.ProcessBundleDescriptor(
            id=f"aside-{uuid.uuid4().hex}",
            coders={**coders, **components.coders},
            environments=components.environments,
            windowing_strategies=components.windowing_strategies,
            state_api_service_descriptor=here,
        )
        ends = (_IN, urns.CHANNEL_SOURCE, begin), (_OUT, urns.CHANNEL_SINK, end)
        for name, urn, coder in ends:
            pcollection = _IN if spec is None else name
            descriptor.pcollections[pcollection].coder_id = begin if spec is None else coder
            descriptor.pcollections[pcollection].is_bounded = _BOUNDED
            descriptor.pcollections[pcollection].windowing_strategy_id = strategy
            bare = descriptor.coders[f"sparkdrain:{name}"]
            bare.spec.urn = common_urns.coders.PARAM_WINDOWED_VALUE.urn
            bare.spec.payload = _CONTEXT
            bare.component_coder_ids[:] = [coder, window]
            port = beam_fn_api_pb2.RemoteGrpcPort(
                api_service_descriptor=here, coder_id=f"sparkdrain:{name}"
            )
            transform = descriptor.transforms[name]
            transform.unique_name = name
            transform.spec.urn, transform.spec.payload = urn, port.SerializeToString()
            (transform.outputs if name == _IN else transform.inputs)[name] = pcollection
        if spec is not None:
            transform = descriptor.transforms["transform"]
            transform.unique_name = spec.urn
            transform.spec.CopyFrom(spec)
            transform.inputs[_IN] = _IN
            transform.outputs[_OUT] = _OUT
        worker.register(descriptor)
        self._worker = worker
        self._id = descriptor.id
        self._embeds = EMBEDDING in capabilities
        self._has_stream = _CAN_NAME and NAMED_STREAMS in capabilities and not self._embeds

    def run(self, several: Sequence[bytes]) -> list[bytes]:
        """What comes out of each of several bundles, given what each of them gets.

        Raises:
            HarnessLost: the harness is gone.
            HarnessFailed: it could not run the stage.
        """
        bundles = [self._bundle(data) for data in several]
        try:
            while not all(bundle.has_ended() for bundle in bundles):
                self._worker.wait()
            return [bundle.taken() for bundle in bundles]
        finally:
            for bundle in bundles:
                bundle.forget()

    def _bundle(self, data: bytes) -> _Bundle:
        request = beam_fn_api_pb2.ProcessBundleRequest(process_bundle_descriptor_id=self._id)
        if self._has_stream:
            request.data_stream_id = _STREAM
        return _Bundle(self._worker, request, data, embeds=self._embeds)


class _Bundle(Listener):
    def __init__(
        self,
        worker: SdkWorker,
        request: beam_fn_api_pb2.ProcessBundleRequest,
        data: bytes,
        *,
        embeds: bool,
    ) -> None:
        self._worker = worker
        self._response: beam_fn_api_pb2.InstructionResponse | None = None
        self._taken: list[bytes] = []
        self._is_over = False
        self._instruction = worker.expect(self)
        outbound = Outbound(
            worker, self._instruction, request, embedded=sys.maxsize if embeds else 0
        )
        outbound.add(_IN, data)
        outbound.end([_IN], [])

    def has_ended(self) -> bool:
        response = self._response
        return response is not None and (self._is_over or bool(response.error))

    def taken(self) -> bytes:
        assert self._response is not None
        if self._response.error:
            raise failed(self._response.error)
        return b"".join(self._taken)

    def forget(self) -> None:
        if not self.has_ended():
            # No caller waits for what the harness still does for this bundle.
            self._worker.is_lost = True
        self._worker.forget(self._instruction)

    @override
    def progressed(self, answer: beam_fn_api_pb2.ProcessBundleProgressResponse) -> None:
        pass

    @override
    def responded(self, response: beam_fn_api_pb2.InstructionResponse) -> None:
        self._response = response
        for data in response.process_bundle.elements.data:
            self.output(data)

    @override
    def output(self, data: beam_fn_api_pb2.Elements.Data) -> None:
        self._taken.append(data.data)
        self._is_over = self._is_over or data.is_last

    @override
    def timers(self, timers: beam_fn_api_pb2.Elements.Timers) -> None:
        raise AssertionError(timers)

    @override
    def state(self, request: beam_fn_api_pb2.StateRequest) -> beam_fn_api_pb2.StateResponse:
        raise AssertionError(request)
