"""What a JVM that waits rehearses with."""

from __future__ import annotations

import queue
import threading

import grpc
import pytest
from apache_beam.portability.api import beam_fn_api_pb2 as api
from apache_beam.portability.api import beam_fn_api_pb2_grpc, beam_runner_api_pb2, endpoints_pb2
from google.protobuf import text_format

from sparkdrain.fnapi.jvm_rehearsal import JvmRehearsal
from tests.support.waiting import wait_until


@pytest.fixture
def taken():
    return threading.Event()


@pytest.fixture
def over():
    return threading.Event()


@pytest.fixture
def rehearsal(tmp_path, taken, over):
    rehearsal = JvmRehearsal(tmp_path, is_taken=taken.is_set, is_over=over.is_set)
    rehearsal.begin()
    return rehearsal


def named(rehearsal: JvmRehearsal) -> tuple[tuple[str, str]]:
    return (("worker_id", rehearsal.variables["HARNESS_ID"]),)


def channel_to(rehearsal: JvmRehearsal) -> grpc.Channel:
    here = endpoints_pb2.ApiServiceDescriptor()
    text_format.Parse(rehearsal.variables["CONTROL_API_SERVICE_DESCRIPTOR"], here)
    return grpc.insecure_channel(here.url)


def test_a_rehearsal_has_bundles_for_a_harness_and_ends_though_they_fail(rehearsal, over):
    answers: queue.SimpleQueue[api.InstructionResponse] = queue.SimpleQueue()
    with channel_to(rehearsal) as channel:
        stub = beam_fn_api_pb2_grpc.BeamFnControlStub(channel)
        requests = stub.Control(iter(answers.get, None), metadata=named(rehearsal))
        request = next(requests)
        wanted = request.process_bundle.process_bundle_descriptor_id
        asked = api.GetProcessBundleDescriptorRequest(process_bundle_descriptor_id=wanted)
        assert set(stub.GetProcessBundleDescriptor(asked, metadata=named(rehearsal)).transforms)
        assert request.process_bundle.elements.data[0].data
        answers.put(api.InstructionResponse(instruction_id=request.instruction_id, error="no"))
        assert list(requests) == [], "it is over, and the harness ends"
    over.set()
    wait_until(lambda: "sparkdrain-rehearsal" not in {each.name for each in threading.enumerate()})


def test_bundles_run_the_dofn_that_the_jvm_has_put_beside_its_variables(rehearsal, tmp_path, over):
    (tmp_path / "do-fn").write_bytes(b"staged")
    answers: queue.SimpleQueue[api.InstructionResponse] = queue.SimpleQueue()
    with channel_to(rehearsal) as channel:
        stub = beam_fn_api_pb2_grpc.BeamFnControlStub(channel)
        request = next(stub.Control(iter(answers.get, None), metadata=named(rehearsal)))
        wanted = request.process_bundle.process_bundle_descriptor_id
        asked = api.GetProcessBundleDescriptorRequest(process_bundle_descriptor_id=wanted)
        given = stub.GetProcessBundleDescriptor(asked, metadata=named(rehearsal))
    (spec,) = (
        each.spec
        for each in given.transforms.values()
        if each.spec.urn == "beam:transform:pardo:v1"
    )
    do_fn = beam_runner_api_pb2.ParDoPayload.FromString(spec.payload).do_fn
    assert (do_fn.urn, do_fn.payload) == ("beam:dofn:javasdk:0.1", b"staged")
    bounded = beam_runner_api_pb2.IsBounded.BOUNDED
    assert {each.is_bounded for each in given.pcollections.values()} == {bounded}, "Java wants it"
    over.set()


def test_a_job_that_takes_the_jvm_does_not_wait_for_more_bundles(rehearsal, taken, over):
    taken.set()
    with channel_to(rehearsal) as channel:
        stub = beam_fn_api_pb2_grpc.BeamFnControlStub(channel)
        told = iter(queue.SimpleQueue().get, None)
        requests = stub.Control(told, metadata=named(rehearsal), timeout=30.0)
        assert list(requests) == [], "the harness ends in its own time"
    over.set()
