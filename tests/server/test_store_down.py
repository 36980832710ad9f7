"""The store of jobs cannot be used: each RPC says so, unless it needs no store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import grpc
import pytest
from apache_beam.portability.api import beam_artifact_api_pb2 as artifact_api
from apache_beam.portability.api import beam_artifact_api_pb2_grpc, beam_runner_api_pb2
from apache_beam.portability.api import beam_job_api_pb2 as api

from sparkdrain.coordination.metadata import StoreDown
from sparkdrain.server import server
from sparkdrain.server.driven_jobs import EndedJob
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.job_client import JobClient

_UNAVAILABLE: Final = grpc.StatusCode.UNAVAILABLE
_NOT_FOUND: Final = grpc.StatusCode.NOT_FOUND
_OK: Final = grpc.StatusCode.OK
_FILE: Final = beam_runner_api_pb2.ArtifactInformation(role_urn="mine")


class Down:
    """A store that cannot be used."""

    def __getattr__(self, call: str):
        def fail(*_: object, **__: object) -> None:
            message = f"the store is away, so it cannot {call}"
            raise StoreDown(message)

        return fail


def _upload(client: JobClient, _: str) -> object:
    stub = beam_artifact_api_pb2_grpc.ArtifactStagingServiceStub(client.channel)
    wrapper = artifact_api.ArtifactResponseWrapper(staging_token="nobody's")
    return list(stub.ReverseArtifactRetrievalService(iter([wrapper])))


def _retrieval(client: JobClient) -> beam_artifact_api_pb2_grpc.ArtifactRetrievalServiceStub:
    return beam_artifact_api_pb2_grpc.ArtifactRetrievalServiceStub(client.channel)


def _messages(client: JobClient, job_id: str) -> object:
    return list(client.stub.GetMessageStream(api.JobMessagesRequest(job_id=job_id)))


def _states(client: JobClient, job_id: str) -> object:
    return list(client.stub.GetStateStream(api.GetJobStateRequest(job_id=job_id)))


# By RPC: how it is called for a job that has ended, and the code of the answer.
_CALLS: Final[dict[str, tuple[Callable[[JobClient, str], object], grpc.StatusCode]]] = {
    # An older job is forgotten for it.
    "Prepare": (lambda client, _: client.prepare(), _UNAVAILABLE),
    # Called for the job that is prepared.
    "Run": (
        lambda client, job: client.stub.Run(api.RunJobRequest(preparation_id=job)),
        _UNAVAILABLE,
    ),
    "GetJobs": (lambda client, _: client.stub.GetJobs(api.GetJobsRequest()), _UNAVAILABLE),
    # States are in memory, and a job that has ended has nothing to cancel or drain.
    "GetState": (lambda client, job: client.state(job), _OK),
    "Cancel": (lambda client, job: client.cancel(job), _OK),
    "Drain": (lambda client, job: client.drain(job), _OK),
    "GetPipeline": (
        lambda client, job: client.stub.GetPipeline(api.GetJobPipelineRequest(job_id=job)),
        _UNAVAILABLE,
    ),
    "GetStateStream": (_states, _UNAVAILABLE),
    "GetMessageStream": (_messages, _UNAVAILABLE),
    "GetJobMetrics": (
        lambda client, job: client.stub.GetJobMetrics(api.GetJobMetricsRequest(job_id=job)),
        _UNAVAILABLE,
    ),
    "DescribePipelineOptions": (
        lambda client, _: client.stub.DescribePipelineOptions(api.DescribePipelineOptionsRequest()),
        _OK,
    ),
    # Files are on the server's disk.
    "ReverseArtifactRetrievalService": (_upload, _NOT_FOUND),
    "ResolveArtifacts": (
        lambda client, _: _retrieval(client).ResolveArtifacts(
            artifact_api.ResolveArtifactsRequest(artifacts=[_FILE])
        ),
        _NOT_FOUND,
    ),
    "GetArtifact": (
        lambda client, _: list(
            _retrieval(client).GetArtifact(artifact_api.GetArtifactRequest(artifact=_FILE))
        ),
        _NOT_FOUND,
    ),
}


def test_each_rpc_of_a_server_is_listed():
    services = [
        api.DESCRIPTOR.services_by_name["JobService"],
        artifact_api.DESCRIPTOR.services_by_name["ArtifactStagingService"],
        artifact_api.DESCRIPTOR.services_by_name["ArtifactRetrievalService"],
    ]
    assert {method.name for service in services for method in service.methods} == set(_CALLS)


@pytest.fixture
def without_store(at_server, monkeypatch):
    """A client of a server that keeps two jobs, one ended and one prepared, and loses its store."""
    monkeypatch.setattr(server, "_KEPT_JOBS", 2)
    client = at_server()
    ended = client.run("ended")
    client.path(ended)
    wait_until(lambda: isinstance(client.server._jobs.get(ended), EndedJob))
    prepared = client.prepare("prepared")
    object.__setattr__(client.server._jobs._store, "store", Down())
    return client, ended, prepared


@pytest.mark.parametrize("rpc", _CALLS)
def test_a_store_that_is_down_is_unavailable(without_store, rpc):
    client, ended, prepared = without_store
    call, expected = _CALLS[rpc]
    code, details = _OK, "the store is away"
    try:
        call(client, prepared if rpc == "Run" else ended)
    except grpc.RpcError as error:
        code, details = error.code(), error.details()
    assert code is expected
    assert expected is _NOT_FOUND or "the store is away" in details
