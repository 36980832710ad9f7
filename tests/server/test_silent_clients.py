"""Clients that are gone without a word: the server lets go of their calls, and only of theirs."""

from __future__ import annotations

import contextlib
import threading
import time

import grpc
import pytest
from apache_beam.portability.api import beam_artifact_api_pb2 as artifact_api
from apache_beam.portability.api import beam_artifact_api_pb2_grpc, beam_runner_api_pb2
from apache_beam.portability.api import beam_job_api_pb2 as api
from fake_engine import FakeEngine, until_cancelled

from sparkdrain.jobs.states import name
from sparkdrain.server import server
from sparkdrain.server.server import keepalive
from tests.support.job_client import JobClient
from tests.support.mute_proxy import MuteProxy
from tests.support.waiting import wait_until

WRAPPER = artifact_api.ArtifactResponseWrapper
PINGS = (
    ("grpc.keepalive_time_ms", 100),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
)


@pytest.fixture(autouse=True)
def sooner(monkeypatch):
    """Servers ping soon, wait shortly for the answer, and put up with one ping too many."""
    strict = ("grpc.http2.max_ping_strikes", 1)
    monkeypatch.setattr(server, "keepalive", lambda: (*keepalive(0.2, 0.3, 0.05), strict))


@pytest.fixture
def through_proxy():
    """A proxy before a server, and a channel through it."""
    made = []

    def connect(endpoint: str, *options: tuple[str, int]):
        proxy = MuteProxy(endpoint)
        channel = grpc.insecure_channel(proxy.endpoint, options=options)
        made.append((proxy, channel))
        return proxy, channel

    yield connect
    for proxy, channel in made:
        channel.close()
        proxy.close()


@pytest.fixture
def following(at_server, through_proxy):
    """A client that follows a job through a proxy, and what tells the end of the server's call."""

    def follow(*options: tuple[str, int]):
        client = at_server(FakeEngine(until_cancelled))
        job_id = client.run()
        client.until_state(job_id, "RUNNING")
        states = client.server._jobs.get(job_id).story.states
        ended, wake = threading.Event(), states.wake
        states.wake = lambda: (ended.set(), wake())
        proxy, channel = through_proxy(client.server.endpoint, *options)
        stream = JobClient(channel).stub.GetStateStream(api.GetJobStateRequest(job_id=job_id))
        assert name(next(stream).state) == "STOPPED"
        return client, job_id, proxy, stream, ended

    return follow


def test_the_call_of_a_client_that_lost_power_ends(following):
    client, job_id, proxy, _, ended = following()
    proxy.mute()
    assert ended.wait(10)
    client.cancel(job_id)


# A client of gRPC pings once in a second at most.
@pytest.mark.parametrize(("options", "seconds"), [((), 1.5), (PINGS, 4)], ids=["answers", "pings"])
def test_a_client_that_is_there_keeps_its_call_though_nothing_happens(following, options, seconds):
    client, job_id, _, stream, ended = following(*options)
    time.sleep(seconds)
    assert not ended.is_set()
    client.cancel(job_id)
    assert [name(event.state) for event in stream][-1] == "CANCELLED"


def test_the_upload_of_a_client_that_lost_power_ends_and_leaves_nothing(at_server, through_proxy):
    client = at_server()
    role = beam_runner_api_pb2.ArtifactStagingToRolePayload(staged_name="lib.jar")
    offered = beam_runner_api_pb2.ArtifactInformation(
        type_urn="beam:artifact:type:file:v1",
        type_payload=beam_runner_api_pb2.ArtifactFilePayload(path="/a").SerializeToString(),
        role_urn="beam:artifact:role:staging_to:v1",
        role_payload=role.SerializeToString(),
    )
    pipeline = beam_runner_api_pb2.Pipeline()
    pipeline.components.environments["env"].dependencies.append(offered)
    job_id = client.prepare("wc", pipeline)
    proxy, channel = through_proxy(client.server.endpoint)
    released = threading.Event()

    def answers():
        yield WRAPPER(staging_token=job_id)
        yield WRAPPER(resolve_artifact_response={"replacements": [offered]})
        yield WRAPPER(get_artifact_response={"data": b"the first part"})
        released.wait(60)

    def upload():
        stub = beam_artifact_api_pb2_grpc.ArtifactStagingServiceStub(channel)
        with contextlib.suppress(grpc.RpcError):
            list(stub.ReverseArtifactRetrievalService(answers()))

    uploading = threading.Thread(target=upload)
    uploading.start()
    staging = client.server._artifacts._stagings[job_id]
    parts = staging.home.glob
    wait_until(lambda: list(parts("*.part")))
    proxy.mute()
    assert staging.over.wait(10)
    wait_until(lambda: not staging.lock.locked(), 10)
    assert not list(parts("*.part"))
    released.set()
    channel.close()
    uploading.join(10)
