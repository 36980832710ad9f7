"""What a JVM that waits rehearses with."""

from __future__ import annotations

import queue
import threading

import grpc
from apache_beam.portability.api import beam_fn_api_pb2 as api
from apache_beam.portability.api import beam_fn_api_pb2_grpc, endpoints_pb2
from google.protobuf import text_format

from sparkdrain.fnapi.jvm_rehearsal import JvmRehearsal
from tests.support.waiting import wait_until


def test_a_rehearsal_has_bundles_for_a_harness_and_ends_though_they_fail(tmp_path):
    over = threading.Event()
    rehearsal = JvmRehearsal(tmp_path, over.is_set)
    rehearsal.begin()
    told = rehearsal.variables
    here = endpoints_pb2.ApiServiceDescriptor()
    text_format.Parse(told["CONTROL_API_SERVICE_DESCRIPTOR"], here)
    answers: queue.SimpleQueue[api.InstructionResponse] = queue.SimpleQueue()
    with grpc.insecure_channel(here.url) as channel:
        stub = beam_fn_api_pb2_grpc.BeamFnControlStub(channel)
        named = (("worker_id", told["HARNESS_ID"]),)
        requests = stub.Control(iter(answers.get, None), metadata=named)
        request = next(requests)
        wanted = request.process_bundle.process_bundle_descriptor_id
        asked = api.GetProcessBundleDescriptorRequest(process_bundle_descriptor_id=wanted)
        assert set(stub.GetProcessBundleDescriptor(asked, metadata=named).transforms)
        assert request.process_bundle.elements.data[0].data
        answers.put(api.InstructionResponse(instruction_id=request.instruction_id, error="no"))
        assert list(requests) == [], "it is over, and the harness ends"
    over.set()
    wait_until(lambda: "sparkdrain-rehearsal" not in {each.name for each in threading.enumerate()})
