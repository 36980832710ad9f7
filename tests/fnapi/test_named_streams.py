"""A stage aside has a stream of elements of its own, if the SDK has such streams."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest
from apache_beam.coders import VarIntCoder
from apache_beam.portability.api import beam_fn_api_pb2, beam_runner_api_pb2
from apache_beam.runners.pipeline_context import PipelineContext
from apache_beam.transforms import environments

from sparkdrain.fnapi.aside import EMBEDDING, NAMED_STREAMS, StageAside
from sparkdrain.fnapi.descriptor import descriptor_of
from sparkdrain.fnapi.errors import HarnessLost
from sparkdrain.fnapi.harnesses import Harnesses, HarnessJob
from sparkdrain.fnapi.process import Life
from sparkdrain.fnapi.state_requests import ValueCounts
from sparkdrain.fnapi.worker import SdkWorker
from sparkdrain.graph.beam import common_urns
from sparkdrain.loopback import loopback_pool
from tests.support.lives import Ending

if TYPE_CHECKING:
    from collections.abc import Iterator


class Busy:
    """A harness whose only stream without a name is full: nobody fetches from it."""

    def __init__(self) -> None:
        self.worker = SdkWorker(
            "id", Ending(lambda: "busy for ever" if self.waits.is_set() else "")
        )
        self.waits = threading.Event()
        for _ in range(3):
            self.worker.send(beam_fn_api_pb2.Elements())
        threading.Thread(target=self.worker.responses, args=[self._answers()], daemon=True).start()
        # Who waits longer would wait for ever.
        threading.Timer(2.0, self.waits.set).start()

    def _answers(self) -> Iterator[beam_fn_api_pb2.InstructionResponse]:
        for request in self.worker.requests():
            name = request.process_bundle.data_stream_id
            if name:
                given = next(self.worker.to_process(name))
                for each in given.data:
                    each.transform_id = "out"
                self.worker.processed(iter([given]))
                yield beam_fn_api_pb2.InstructionResponse(instruction_id=request.instruction_id)


def aside(worker, capabilities) -> StageAside:
    coder = beam_runner_api_pb2.Coder()
    coder.spec.urn = common_urns.coders.BYTES.urn
    return StageAside(worker, {"bytes": coder}, "bytes", "bytes", capabilities=capabilities)


def test_elements_of_a_bundle_that_waits_are_not_in_the_way_of_a_stage_aside():
    busy = Busy()
    assert aside(busy.worker, {NAMED_STREAMS}).run([b"\x01a"]) == [b"\x01a"]


def test_without_a_name_they_are():
    busy = Busy()
    with pytest.raises(HarnessLost, match="busy for ever"):
        aside(busy.worker, set()).run([b"\x01a"])


def test_a_stage_whose_elements_go_within_the_request_needs_no_stream():
    assert not aside(SdkWorker("id", Life()), {NAMED_STREAMS, EMBEDDING})._has_stream


@pytest.mark.parametrize(("capabilities", "name"), [({NAMED_STREAMS}, "aside"), (set(), "")])
def test_beams_harness_gets_elements_of_a_stage_aside_by_a_stream_with_a_name(capabilities, name):
    harnesses, context = Harnesses(), PipelineContext()
    try:
        id_ = context.coders.get_id(VarIntCoder())
        environment = environments.ExternalEnvironment(loopback_pool()).to_runner_api(context)
        worker = harnesses.lend(HarnessJob("job", {}), "pool", environment)
        known = beam_fn_api_pb2.ProcessBundleDescriptor(
            coders=context.to_runner_api().coders,
            state_api_service_descriptor=descriptor_of(worker.life.endpoint),
        )
        counts = ValueCounts(worker, known, id_, capabilities=capabilities)
        assert counts.count([b"\x01\x02\x03", b"", b"\x07"]) == [3, 0, 1]
        assert [each for each, stream in worker._streams.items() if stream.is_fetched] == [name]
        harnesses.give_back(worker)
    finally:
        harnesses.close()
