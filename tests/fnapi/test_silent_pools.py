"""Pools of workers that do not do what they are asked for: what to do is told."""

from __future__ import annotations

import socket
from concurrent import futures

import apache_beam as beam
import grpc
import pytest
from apache_beam.portability.api import beam_fn_api_pb2, beam_fn_api_pb2_grpc
from apache_beam.transforms import environments

from sparkdrain.fnapi.errors import HarnessNotStarted
from sparkdrain.fnapi.harness import Outside
from sparkdrain.fnapi.harnesses import Harnesses, HarnessJob
from tests.support.in_memory import run_in_memory

WHAT_TO_DO = r"Give the address of a pool that every executor reaches as --environment_config"


@pytest.fixture
def run():
    """Runs a stage in a harness of the pool at an address."""
    harnesses = Harnesses()

    def run(address):
        pipeline = beam.Pipeline()
        _ = pipeline | beam.Create([1]) | beam.Map(print)
        environment = environments.ExternalEnvironment(
            address, capabilities=environments.python_sdk_capabilities()
        )
        run_in_memory(
            pipeline, 1, environment=environment, outside=Outside(HarnessJob("job", {}), harnesses)
        )

    yield run
    harnesses.close()


@pytest.mark.parametrize(
    ("address", "told"),
    [
        ("localhost:{free}", "Connection refused"),
        ("no-such-host.invalid:1", "Name or service not known|name resolution|not known"),
        ("localhost", "invalid"),
    ],
)
def test_a_pool_that_is_not_there_is_named_with_what_to_do(run, address, told):
    with socket.socket() as free:
        free.bind(("localhost", 0))  # and nobody listens
        address = address.format(free=free.getsockname()[1])
        with pytest.raises(HarnessNotStarted) as error:
            run(address)
    assert f"The worker pool at {address!r} does not answer: " in str(error.value)
    assert error.match(told)
    assert error.match(WHAT_TO_DO)


def test_a_pool_that_takes_calls_and_says_nothing_is_given_up(run, monkeypatch):
    monkeypatch.setattr("sparkdrain.fnapi.launch._POOL_SECONDS", 1.0)
    monkeypatch.setattr("sparkdrain.fnapi.launch.STOP_SECONDS", 0.5)
    with socket.create_server(("localhost", 0)) as silent:
        address = f"localhost:{silent.getsockname()[1]}"
        with pytest.raises(HarnessNotStarted) as error:
            run(address)
    first, *_ = str(error.value).split(". ")
    assert first.startswith(f"The worker pool at {address!r} does not answer: ")
    assert "\n" not in first
    assert error.match(WHAT_TO_DO)


class _Refusing(beam_fn_api_pb2_grpc.BeamFnExternalWorkerPoolServicer):
    def StartWorker(self, request, context):
        return beam_fn_api_pb2.StartWorkerResponse(error="no room")


def test_why_a_pool_starts_no_worker_is_told(run):
    server = grpc.server(futures.ThreadPoolExecutor(2))
    beam_fn_api_pb2_grpc.add_BeamFnExternalWorkerPoolServicer_to_server(_Refusing(), server)
    port = server.add_insecure_port("localhost:0")
    server.start()
    with pytest.raises(HarnessNotStarted, match=rf"localhost:{port}' started no worker: no room"):
        run(f"localhost:{port}")
    server.stop(0)
