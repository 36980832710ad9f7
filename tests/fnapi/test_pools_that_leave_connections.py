"""Java's harness in a program of the user's ends, and leaves its connections open."""

from __future__ import annotations

import queue
from concurrent import futures

import apache_beam as beam
import grpc
import pytest
from apache_beam.portability.api import beam_fn_api_pb2_grpc
from apache_beam.runners.worker.worker_pool_main import BeamFnExternalWorkerPoolServicer
from apache_beam.transforms import environments

from sparkdrain.fnapi import services
from sparkdrain.fnapi.harness import Outside
from sparkdrain.fnapi.harnesses import Harnesses, HarnessJob
from tests.support.in_memory import run_in_memory
from tests.support.seen import SEEN, see

LEFT = 4


class _LeavesConnections(BeamFnExternalWorkerPoolServicer):
    """A pool whose harnesses have connections of their own for state, and never close them."""

    def __init__(self):
        super().__init__(use_process=False)
        self.left = []

    def StartWorker(self, request, context):
        for _ in range(LEFT):
            channel = grpc.insecure_channel(
                request.control_endpoint.url, options=[("grpc.use_local_subchannel_pool", 1)]
            )
            stub = beam_fn_api_pb2_grpc.BeamFnStateStub(channel)
            asked = stub.State(
                iter(queue.SimpleQueue().get, None), metadata=(("worker_id", request.worker_id),)
            )
            self.left.append((channel, asked))
        return super().StartWorker(request, context)


@pytest.fixture
def pool():
    server = grpc.server(futures.ThreadPoolExecutor(8))
    pool = _LeavesConnections()
    beam_fn_api_pb2_grpc.add_BeamFnExternalWorkerPoolServicer_to_server(pool, server)
    port = server.add_insecure_port("localhost:0")
    server.start()
    yield pool, f"localhost:{port}"
    for channel, _ in pool.left:
        channel.close()
    server.stop(0)


def test_what_harnesses_leave_open_ends_and_keeps_nobody_out(pool, monkeypatch):
    pool, address = pool
    monkeypatch.setattr(services, "_CONNECTIONS", 3 * LEFT)
    monkeypatch.setattr(services, "_LEAVE_SECONDS", 0.2)
    monkeypatch.setattr("sparkdrain.fnapi.harnesses._START_SECONDS", 10.0)
    harnesses = Harnesses()
    environment = environments.ExternalEnvironment(
        address, capabilities=environments.python_sdk_capabilities()
    )
    SEEN.clear()
    for number in range(4):
        pipeline = beam.Pipeline()
        _ = pipeline | beam.Create([number]) | beam.Map(see)
        outside = Outside(HarnessJob(f"job {number}", {}), harnesses)
        run_in_memory(pipeline, 1, environment=environment, outside=outside)
    assert SEEN == [0, 1, 2, 3]
    for _, asked in pool.left[:LEFT]:
        assert isinstance(asked.exception(timeout=30.0), grpc.RpcError)
    harnesses.close()
