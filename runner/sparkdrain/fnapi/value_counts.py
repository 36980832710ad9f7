"""Has an SDK harness count values whose coder nobody else knows."""

from __future__ import annotations

import sys
import uuid
from typing import TYPE_CHECKING, Final

from apache_beam.coders import coders
from apache_beam.coders.coder_impl import create_InputStream
from apache_beam.portability.api import beam_fn_api_pb2
from apache_beam.runners.pipeline_context import PipelineContext
from apache_beam.transforms.core import Windowing
from apache_beam.transforms.window import GlobalWindows
from typing_extensions import override

from sparkdrain.fnapi.descriptor import SINK, SOURCE
from sparkdrain.fnapi.errors import failed
from sparkdrain.fnapi.outbound import Outbound
from sparkdrain.fnapi.worker import Listener
from sparkdrain.graph.beam import common_urns

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sparkdrain.fnapi.worker import SdkWorker

_IN: Final = "in"
_OUT: Final = "out"
_VALUES: Final = "values"
# Time, window and pane of an element that is written as its value and nothing else.
_CONTEXT: Final = coders.WindowedValueCoder(coders.BytesCoder(), coders.GlobalWindowCoder()).encode(
    GlobalWindows.windowed_value(b"")
)


class ValueCounts:
    """Counts values by a stage that takes them in one behind the other, and gives their lengths.

    Args:
        worker: the harness, which may be amid another bundle.
        known: a descriptor with the coder.
        coder: of the values.
        embeds: whether the harness takes elements within a request. Where they come in otherwise,
            those of the other bundle may be in the way.
    """

    def __init__(
        self,
        worker: SdkWorker,
        known: beam_fn_api_pb2.ProcessBundleDescriptor,
        coder: str,
        *,
        embeds: bool,
    ) -> None:
        context = PipelineContext(namespace="sparkdrain")
        strategy = context.windowing_strategies.get_id(Windowing(GlobalWindows()))
        components = context.to_runner_api()
        window = components.windowing_strategies[strategy].window_coder_id
        descriptor = beam_fn_api_pb2.ProcessBundleDescriptor()
        descriptor.CopyFrom(known)
        descriptor.id = f"count-{uuid.uuid4().hex}"
        descriptor.ClearField("transforms")
        descriptor.ClearField("pcollections")
        for id_, its_coder in components.coders.items():
            descriptor.coders[id_].CopyFrom(its_coder)
        descriptor.windowing_strategies[strategy].CopyFrom(
            components.windowing_strategies[strategy]
        )
        descriptor.pcollections[_VALUES].coder_id = coder
        descriptor.pcollections[_VALUES].windowing_strategy_id = strategy
        lengths = descriptor.coders["sparkdrain:lengths"]
        lengths.spec.urn = common_urns.coders.LENGTH_PREFIX.urn
        lengths.component_coder_ids[:] = [coder]
        for name, urn, value in ((_IN, SOURCE, coder), (_OUT, SINK, "sparkdrain:lengths")):
            bare = descriptor.coders[f"sparkdrain:{name}"]
            bare.spec.urn = common_urns.coders.PARAM_WINDOWED_VALUE.urn
            bare.spec.payload = _CONTEXT
            bare.component_coder_ids[:] = [value, window]
            port = beam_fn_api_pb2.RemoteGrpcPort(
                api_service_descriptor=known.state_api_service_descriptor,
                coder_id=f"sparkdrain:{name}",
            )
            transform = descriptor.transforms[name]
            transform.unique_name = name
            transform.spec.urn, transform.spec.payload = urn, port.SerializeToString()
            (transform.outputs if name == _IN else transform.inputs)[name] = _VALUES
        worker.register(descriptor)
        self._worker = worker
        self._id = descriptor.id
        self._embeds = embeds

    def count(self, several: Sequence[bytes]) -> list[int]:
        """How many values each of several pieces of data has."""
        bundles = [_Bundle(self._worker, self._id, data, embeds=self._embeds) for data in several]
        while not all(bundle.has_ended() for bundle in bundles):
            self._worker.wait()
        return [bundle.count() for bundle in bundles]


class _Bundle(Listener):
    def __init__(self, worker: SdkWorker, descriptor: str, data: bytes, *, embeds: bool) -> None:
        self._worker = worker
        self._response: beam_fn_api_pb2.InstructionResponse | None = None
        self._lengths: list[bytes] = []
        self._is_over = False
        request = beam_fn_api_pb2.ProcessBundleRequest(process_bundle_descriptor_id=descriptor)
        self._instruction = worker.expect(self)
        outbound = Outbound(
            worker, self._instruction, request, embedded=sys.maxsize if embeds else 0
        )
        outbound.add(_IN, data)
        outbound.end([_IN], [])

    def has_ended(self) -> bool:
        response = self._response
        return response is not None and (self._is_over or bool(response.error))

    def count(self) -> int:
        self._worker.forget(self._instruction)
        assert self._response is not None
        if self._response.error:
            raise failed(self._response.error)
        stream, count = create_InputStream(b"".join(self._lengths)), 0
        while stream.size() > 0:
            stream.read(stream.read_var_int64())
            count += 1
        return count

    @override
    def responded(self, response: beam_fn_api_pb2.InstructionResponse) -> None:
        self._response = response
        for data in response.process_bundle.elements.data:
            self.output(data)

    @override
    def output(self, data: beam_fn_api_pb2.Elements.Data) -> None:
        self._lengths.append(data.data)
        self._is_over = self._is_over or data.is_last

    @override
    def timers(self, timers: beam_fn_api_pb2.Elements.Timers) -> None:
        raise AssertionError(timers)

    @override
    def state(self, request: beam_fn_api_pb2.StateRequest) -> beam_fn_api_pb2.StateResponse:
        raise AssertionError(request)
