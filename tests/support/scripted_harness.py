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
from sparkdrain.fnapi.worker import SdkWorker
from sparkdrain.graph import urns
from tests.support.in_memory import run_in_memory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

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
        rests: what it leaves over of each bundle.
    """

    def __init__(
        self,
        answer: Callable[[api.ProcessBundleDescriptor, api.ProcessBundleRequest], api.Elements],
        asks: Iterable[api.StateKey] = (),
        rests: Iterable[api.DelayedBundleApplication] = (),
    ) -> None:
        self.worker = SdkWorker("id", str)
        self.bundles: list[api.ProcessBundleRequest] = []
        self.states: list[api.StateResponse] = []
        self.streamed: bool | None = None
        self._answer = answer
        self._asks = list(asks)
        self._rests = list(rests)
        threading.Thread(target=self._work, daemon=True).start()

    def _work(self) -> None:
        self.worker.responses(map(self._answer_to, self.worker.requests()))

    def _answer_to(self, request: api.InstructionRequest) -> api.InstructionResponse:
        self.bundles.append(request.process_bundle)
        descriptor = self.worker.descriptor(request.process_bundle.process_bundle_descriptor_id)
        assert descriptor is not None
        id_ = request.instruction_id
        asked = [api.StateRequest(instruction_id=id_, state_key=key, get={}) for key in self._asks]
        self.worker.state_requests(iter(asked), self.states.append)
        response = api.InstructionResponse(instruction_id=id_)
        response.process_bundle.elements.CopyFrom(self._answer(descriptor, request.process_bundle))
        response.process_bundle.residual_roots.extend(self._rests)
        return response

    def lend(self, *_, **__) -> SdkWorker:
        return self.worker

    def endpoint_of(self, _) -> str:
        return "unix:/nowhere"

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
        run_in_memory(pipeline, 1, environment=environment, outside=outside)
    finally:
        scripted.streamed = not scripted.worker._elements.empty()
        scripted.worker.close()
    return scripted


def ends_of(descriptor: api.ProcessBundleDescriptor) -> api.Elements:
    """Ends of all that a bundle may give."""
    found = api.Elements()
    for id_, transform in descriptor.transforms.items():
        if transform.spec.urn == urns.CHANNEL_SINK:
            found.data.add(transform_id=id_, is_last=True)
    return found
