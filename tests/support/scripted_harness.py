"""An SDK harness that is a script: it answers each bundle as a test says."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final

import apache_beam as beam
from apache_beam.coders.coders import BytesCoder, GlobalWindowCoder
from apache_beam.coders.coders import _TimerCoder as TimerCoder
from apache_beam.portability import common_urns
from apache_beam.portability.api import beam_fn_api_pb2 as api
from apache_beam.transforms import environments, userstate
from apache_beam.transforms.window import GlobalWindow
from apache_beam.utils.timestamp import Timestamp
from apache_beam.utils.windowed_value import PANE_INFO_UNKNOWN

from sparkdrain.fnapi.harness import Outside
from sparkdrain.fnapi.harnesses import HarnessJob
from sparkdrain.fnapi.process import Life
from sparkdrain.fnapi.worker import SdkWorker
from sparkdrain.graph import urns
from tests.support.in_memory import run_in_memory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from pathlib import Path

    from apache_beam.portability.api import metrics_pb2

    from sparkdrain.stages.telling.report import SlotReport

EMBEDDING: Final = common_urns.protocols.CONTROL_REQUEST_ELEMENTS_EMBEDDING.urn
ELEMENT: Final = b"\x80\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01\x0f"
"""Time, window and pane of an element."""
TIMERS: Final = TimerCoder(BytesCoder(), GlobalWindowCoder()).get_impl()
"""Encodes timers of keys that are bytes, in the global window."""
AT_SEVEN: Final = userstate.Timer(
    user_key=b"k",
    dynamic_timer_tag="",
    windows=(GlobalWindow(),),
    clear_bit=False,
    fire_timestamp=Timestamp(7),
    hold_timestamp=Timestamp(7),
    paneinfo=PANE_INFO_UNKNOWN,
)
"""A timer of the key ``b"k"``, which fires at second 7."""


class Scripted:
    """Lends one harness, which answers each bundle with elements within the answer.

    Args:
        answer: what comes out of a bundle, given its descriptor and the request for it.
        asks: the states that it asks for before it answers.
        rests: what it leaves over of the bundle that it answers next; taken from the list.
        metrics: what it counts in each bundle, by short id. It tells names if it is asked.
        in_full: metrics that come with their names.
        early: for each bundle from the first on, what it counts, by short id, when it is asked amid
            the bundle how far it is.
        told: see ``Life.told``.
        of_process: what it counts for its process, by short id.
    """

    def __init__(
        self,
        answer: Callable[[api.ProcessBundleDescriptor, api.ProcessBundleRequest], api.Elements],
        asks: Iterable[api.StateKey] = (),
        rests: list[api.DelayedBundleApplication] | None = None,
        metrics: Mapping[str, metrics_pb2.MonitoringInfo] | None = None,
        in_full: Iterable[metrics_pb2.MonitoringInfo] = (),
        early: Iterable[Mapping[str, metrics_pb2.MonitoringInfo]] = (),
        told: Path | None = None,
        of_process: Mapping[str, metrics_pb2.MonitoringInfo] | None = None,
    ) -> None:
        self.worker = SdkWorker("id", Life("unix:/nowhere", told))
        self.asked_of_process = 0
        """How often the slot has asked what it counts for its process."""
        self.named: list[str] = []
        """The short ids that the slot has asked for."""
        self.bundles: list[api.ProcessBundleRequest] = []
        self.states: list[api.StateResponse] = []
        self.streamed: bool | None = None
        self.reports: list[SlotReport] = []
        self._answer = answer
        self._asks = list(asks)
        self._rests = [] if rests is None else rests
        self._metrics = dict(metrics or {})
        self._in_full = list(in_full)
        self._early = list(early)
        self._of_process = dict(of_process or {})
        self._known = {
            id_: info
            for each in (*self._early, self._of_process, self._metrics)
            for id_, info in each.items()
        }
        threading.Thread(target=self._work, daemon=True).start()

    def _work(self) -> None:
        self.worker.responses(self._responses())

    def _responses(self) -> Iterator[api.InstructionResponse]:
        requests = self.worker.requests()
        for request in requests:
            if request.WhichOneof("request") == "process_bundle" and self._early:
                question = api.InstructionRequest()
                question.process_bundle_progress.instruction_id = request.instruction_id
                asks = threading.Thread(target=self.worker.ask, args=[question])
                asks.start()
                response = api.InstructionResponse(instruction_id=next(requests).instruction_id)
                for id_, info in self._early.pop(0).items():
                    response.process_bundle_progress.monitoring_data[id_] = info.payload
                yield response
                asks.join()
            yield self._answer_to(request)

    def _answer_to(self, request: api.InstructionRequest) -> api.InstructionResponse:
        if request.WhichOneof("request") == "monitoring_infos":
            return self._names(request)
        if request.WhichOneof("request") == "harness_monitoring_infos":
            self.asked_of_process += 1
            response = api.InstructionResponse(instruction_id=request.instruction_id)
            for id_, info in self._of_process.items():
                response.harness_monitoring_infos.monitoring_data[id_] = info.payload
            return response
        self.bundles.append(request.process_bundle)
        descriptor = self.worker.descriptor(request.process_bundle.process_bundle_descriptor_id)
        assert descriptor is not None
        id_ = request.instruction_id
        asked = [api.StateRequest(instruction_id=id_, state_key=key, get={}) for key in self._asks]
        self.states += self.worker.state_answers(iter(asked))
        response = api.InstructionResponse(instruction_id=id_)
        response.process_bundle.elements.CopyFrom(self._answer(descriptor, request.process_bundle))
        response.process_bundle.residual_roots.extend(self._rests)
        self._rests.clear()
        for id_, info in self._metrics.items():
            response.process_bundle.monitoring_data[id_] = info.payload
        response.process_bundle.monitoring_infos.extend(self._in_full)
        return response

    def _names(self, request: api.InstructionRequest) -> api.InstructionResponse:
        ids = request.monitoring_infos.monitoring_info_id
        self.named += ids
        response = api.InstructionResponse(instruction_id=request.instruction_id)
        response.monitoring_infos.SetInParent()
        for id_ in ids:
            info = self._known[id_]
            if info.urn:
                named = response.monitoring_infos.monitoring_info[id_]
                named.CopyFrom(info)
                named.ClearField("payload")
        return response

    def lend(self, *_, **__) -> SdkWorker:
        return self.worker

    def await_connection(self, _) -> None:
        pass

    def give_back(self, *_, **__) -> None:
        pass


def run_scripted(build, answer, capabilities=(EMBEDDING,), **script) -> Scripted:
    """Run a pipeline with such a harness."""
    pipeline = beam.Pipeline()
    build(pipeline)
    environment = environments.ExternalEnvironment("nowhere", capabilities=capabilities)
    scripted = Scripted(answer, **script)
    outside = Outside(HarnessJob("job", {}), scripted)
    try:
        scripted.reports = run_in_memory(pipeline, 1, environment=environment, outside=outside)
    finally:
        streams = list(scripted.worker._streams.values())
        scripted.streamed = not all(stream.elements.empty() for stream in streams)
        scripted.worker.close()
    return scripted


def ends_of(descriptor: api.ProcessBundleDescriptor) -> api.Elements:
    """Ends of all that a bundle may give."""
    found = api.Elements()
    for id_, transform in descriptor.transforms.items():
        if transform.spec.urn == urns.CHANNEL_SINK:
            found.data.add(transform_id=id_, is_last=True)
    return found
