"""A server under load: many clients at once, large files, clients that vanish; memory stays."""

from __future__ import annotations

import ctypes
import gc
import os
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import grpc
import psutil
import pytest
from apache_beam.portability import common_urns
from apache_beam.portability.api import beam_artifact_api_pb2 as artifact_api
from apache_beam.portability.api import beam_artifact_api_pb2_grpc, beam_runner_api_pb2
from apache_beam.portability.api import beam_job_api_pb2 as api
from apache_beam.runners.portability import artifact_service
from fake_engine import FakeEngine, until_cancelled
from grpc_health.v1 import health_pb2, health_pb2_grpc

from sparkdrain.server.driven_job import DrivenJob
from tests.support.job_client import JobClient
from tests.support.waiting import wait_until

MB = 1 << 20


def dependency(path) -> beam_runner_api_pb2.ArtifactInformation:
    role = beam_runner_api_pb2.ArtifactStagingToRolePayload(staged_name="file")
    return beam_runner_api_pb2.ArtifactInformation(
        type_urn=common_urns.artifact_types.FILE.urn,
        type_payload=beam_runner_api_pb2.ArtifactFilePayload(path=str(path)).SerializeToString(),
        role_urn=common_urns.artifact_roles.STAGING_TO.urn,
        role_payload=role.SerializeToString(),
    )


def with_file(path) -> beam_runner_api_pb2.Pipeline:
    pipeline = beam_runner_api_pb2.Pipeline()
    pipeline.components.environments["env"].dependencies.append(dependency(path))
    return pipeline


def stage(channel, token: str) -> None:
    artifact_service.offer_artifacts(
        beam_artifact_api_pb2_grpc.ArtifactStagingServiceStub(channel),
        artifact_service.ArtifactRetrievalService(
            artifact_service.BeamFilesystemHandler(None).file_reader
        ),
        token,
    )


def is_healthy(client) -> bool:
    stub = health_pb2_grpc.HealthStub(client.channel)
    answer = stub.Check(health_pb2.HealthCheckRequest(), timeout=10)
    client.stub.GetJobs(api.GetJobsRequest(), timeout=10)
    return answer.status == health_pb2.HealthCheckResponse.SERVING


def test_a_large_file_arrives_whole_and_is_removed_when_its_job_ends(at_server, tmp_path):
    path = tmp_path / "large"
    path.write_bytes(os.urandom(MB) * 100)
    seen: list[int] = []

    def behave(call) -> None:
        (artifact,) = call.artifacts
        seen.append(artifact.path.stat().st_size)
        with artifact.path.open("rb") as mine, path.open("rb") as its:
            assert all(mine.read(MB) == its.read(MB) for _ in range(100))

    client = at_server(FakeEngine(behave))
    job_id = client.prepare("large", with_file(path))
    stage(client.channel, job_id)
    client.stub.Run(api.RunJobRequest(preparation_id=job_id))
    assert client.path(job_id)[-1] == "DONE", client.messages(job_id)
    assert seen == [100 * MB]
    assert not (client.server._files / job_id).exists()


def test_an_abandoned_upload_leaves_nothing(at_server, tmp_path):
    client = at_server()
    job_id = client.prepare("half", with_file("/client/file"))
    wrapper = artifact_api.ArtifactResponseWrapper
    resolved = artifact_api.ResolveArtifactsResponse(replacements=[dependency("/client/file")])
    vanished = threading.Event()

    def half():
        yield wrapper(staging_token=job_id)
        yield wrapper(resolve_artifact_response=resolved)
        data = artifact_api.GetArtifactResponse(data=b"x" * MB)
        yield wrapper(get_artifact_response=data)
        vanished.wait(30)

    channel = grpc.insecure_channel(client.server.endpoint)
    stub = beam_artifact_api_pb2_grpc.ArtifactStagingServiceStub(channel)
    call = stub.ReverseArtifactRetrievalService(half())  # a call that nobody holds is cancelled
    wait_until(lambda: list(client.server._files.glob("*/*.part")))
    channel.close()
    vanished.set()
    assert not call.is_active()
    wait_until(lambda: not list(client.server._files.glob("*/*")))
    assert is_healthy(client)
    client.stub.Run(api.RunJobRequest(preparation_id=job_id))
    assert client.path(job_id)[-1] == "FAILED"
    assert "'file' was offered for staging but did not arrive" in client.messages(job_id)[-1]


def test_clients_that_vanish_while_they_follow_a_job_cost_nothing_later(at_server):
    client = at_server(FakeEngine(until_cancelled))
    job_id = client.run("long")
    client.until_state(job_id, "RUNNING")
    before = threading.active_count()
    for _ in range(20):
        with grpc.insecure_channel(client.server.endpoint) as channel:
            other = JobClient(channel)
            next(other.stub.GetMessageStream(api.JobMessagesRequest(job_id=job_id)))
            next(other.stub.GetStateStream(api.GetJobStateRequest(job_id=job_id)))
    # Beam's pool keeps 16 idle threads.
    wait_until(lambda: threading.active_count() <= before + 17)
    assert is_healthy(client)
    client.cancel(job_id)


class Forgetful(FakeEngine):
    def execute(self, invocation):
        outcome = super().execute(invocation)
        self.calls.clear()
        return outcome


def settled_rss() -> int:
    """The least within some seconds: threads that end give memory back later."""
    found = []
    for _ in range(10):
        time.sleep(0.5)
        gc.collect()
        if sys.platform == "linux":
            ctypes.CDLL("libc.so.6").malloc_trim(0)  # what was freed is not in use
        found.append(psutil.Process().memory_info().rss)
    return min(found)


@pytest.mark.slow
def test_a_second_hundred_of_jobs_at_once_takes_no_more_memory(at_server):
    """The server, its drivers and the clients are one process here: an upper bound."""
    client = at_server(Forgetful(), max_jobs=8)
    pipeline = beam_runner_api_pb2.Pipeline(requirements=["x" * (MB // 2)])

    def submit(number: int) -> str:
        job_id = client.prepare(f"job-{number}", pipeline)
        client.stub.Run(api.RunJobRequest(preparation_id=job_id))
        return client.path(job_id)[-1]

    def hundred() -> list[str]:
        with ThreadPoolExecutor(100) as clients:
            return list(clients.map(submit, range(100)))

    assert set(hundred()) == {"DONE"}
    first = settled_rss()
    grown = []
    for _ in range(2):
        assert set(hundred()) == {"DONE"}
        grown.append((settled_rss() - first) / MB)
    assert is_healthy(client)
    # Pipelines alone, if they were kept, would be 50 MB a hundred.
    assert min(grown) < 25, grown
    # Idle threads hold on to what they did last.
    assert sum(isinstance(each, DrivenJob) for each in gc.get_objects()) < 64
    assert len(client.jobs()) == 300
