"""Each RPC of the Job API at a server, and gRPC's own services."""

from __future__ import annotations

from functools import partial

import grpc
import pytest
from apache_beam.portability.api import beam_artifact_api_pb2 as artifact_api
from apache_beam.portability.api import beam_artifact_api_pb2_grpc, beam_runner_api_pb2
from apache_beam.portability.api import beam_job_api_pb2 as api
from fake_engine import FakeEngine, until_cancelled
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from sparkdrain.errors import BadOption, Unsupported
from sparkdrain.jobs.engine import SparkEngine
from sparkdrain.server.server import StandingServer
from sparkdrain.server.settings import ServerSettings

JOBS = "org.apache.beam.model.job_management.v1.JobService"
ARTIFACTS = {
    "org.apache.beam.model.job_management.v1.ArtifactStagingService",
    "org.apache.beam.model.job_management.v1.ArtifactRetrievalService",
}
EXPANSION = "org.apache.beam.model.expansion.v1.ExpansionService"
GRPCS = {"grpc.health.v1.Health", "grpc.reflection.v1alpha.ServerReflection"}


class Checking(FakeEngine):
    """Checks as the real engine does, and runs nothing."""

    def check(self, pipeline, settings) -> None:
        SparkEngine().check(pipeline, settings)


def code_of(call) -> tuple[grpc.StatusCode, str]:
    with pytest.raises(grpc.RpcError) as caught:
        call()
    return caught.value.code(), caught.value.details()


def test_health_is_told(at_server):
    stub = health_pb2_grpc.HealthStub(at_server().channel)
    for service in ("", JOBS):
        answer = stub.Check(health_pb2.HealthCheckRequest(service=service))
        assert answer.status == health_pb2.HealthCheckResponse.SERVING


def listed(channel: grpc.Channel) -> set[str]:
    stub = reflection_pb2_grpc.ServerReflectionStub(channel)
    asked = iter([reflection_pb2.ServerReflectionRequest(list_services="")])
    (answer,) = stub.ServerReflectionInfo(asked)
    names = {service.name for service in answer.list_services_response.service}
    assert names >= GRPCS
    return names - GRPCS


def test_reflection_lists_the_services_that_a_port_serves(at_server):
    assert listed(at_server().channel) == {JOBS, *ARTIFACTS}
    client = at_server(artifact_port=0, expansion_port=0)
    assert listed(client.channel) == {JOBS}
    artifacts = client.stub.Prepare(api.PrepareJobRequest()).artifact_staging_endpoint.url
    for url, names in ((artifacts, ARTIFACTS), (client.server.expansion_endpoint, {EXPANSION})):
        with grpc.insecure_channel(url) as channel:
            assert listed(channel) == names
            check = health_pb2_grpc.HealthStub(channel).Check
            for name in names:
                answer = check(health_pb2.HealthCheckRequest(service=name))
                assert answer.status == health_pb2.HealthCheckResponse.SERVING
            code, _ = code_of(partial(check, health_pb2.HealthCheckRequest(service=JOBS)))
            assert code is grpc.StatusCode.NOT_FOUND


def test_a_pipeline_that_is_none_is_an_invalid_argument_with_the_transform(at_server):
    client = at_server(Checking())
    pipeline = beam_runner_api_pb2.Pipeline(root_transform_ids=["t"])
    pipeline.components.transforms["t"].unique_name = "Mine"
    pipeline.components.transforms["t"].inputs["in"] = "nothing"
    code, text = code_of(lambda: client.prepare(pipeline=pipeline))
    assert code is grpc.StatusCode.INVALID_ARGUMENT
    assert "'Mine' refers to the PCollection 'nothing'" in text


def test_what_cannot_run_is_a_failed_precondition_with_the_urn(at_server):
    client = at_server(Checking())
    pipeline = beam_runner_api_pb2.Pipeline(root_transform_ids=["t"])
    pipeline.components.transforms["t"].unique_name = "Mine"
    pipeline.components.transforms["t"].spec.urn = "beam:transform:strange:v9"
    pipeline.components.transforms["t"].outputs["out"] = "p"
    pipeline.components.pcollections["p"].coder_id = "c"
    pipeline.components.pcollections["p"].windowing_strategy_id = "w"
    pipeline.components.coders["c"].spec.urn = "beam:coder:bytes:v1"
    pipeline.components.windowing_strategies["w"].environment_id = ""
    code, text = code_of(lambda: client.prepare(pipeline=pipeline))
    assert code is grpc.StatusCode.FAILED_PRECONDITION
    assert "'Mine' has URN beam:transform:strange:v9" in text


def test_an_option_that_does_not_parse_is_an_invalid_argument(at_server):
    code, text = code_of(lambda: at_server().prepare(slots="many"))
    assert code is grpc.StatusCode.INVALID_ARGUMENT
    assert "--slots cannot be 'many'" in text


def test_the_pipeline_the_list_and_the_options_can_be_asked_for(at_server):
    client = at_server(FakeEngine(until_cancelled))
    pipeline = beam_runner_api_pb2.Pipeline(requirements=["mine"])
    job_id = client.prepare("wc", pipeline, my_password="hidden-1")
    client.stub.Run(api.RunJobRequest(preparation_id=job_id))
    found = client.stub.GetPipeline(api.GetJobPipelineRequest(job_id=job_id)).pipeline
    assert found == pipeline
    (info,) = client.jobs()
    assert (info.job_id, info.job_name) == (job_id, "wc")
    assert "hidden-1" not in str(info)
    described = client.stub.DescribePipelineOptions(api.DescribePipelineOptionsRequest())
    assert {"slots", "checkpoint_dir"} <= {option.name for option in described.options}
    client.cancel(job_id)


def test_a_job_that_names_no_master_gets_that_of_the_server(at_server):
    client = at_server(is_warm=True, spark_master_url="local[7]")
    for options in ({}, {"spark_master_url": "local[3]"}):
        client.path(client.run(**options))
    calls = client.drivers.engine.calls
    assert [call.settings.spark_master_url for call in calls] == ["local[7]", "local[3]"]
    assert client.drivers.started[0].session.spark_master_url == "local[7]", "the spare"
    first = client.jobs()[0]
    assert first.pipeline_options["beam:option:spark_master_url:v1"] == "local[7]"


def test_an_empty_master_is_refused_at_the_start():
    with pytest.raises(BadOption, match="--spark_master_url is empty"):
        StandingServer(ServerSettings(job_port=0, spark_master_url=" "), FakeEngine())


def test_a_job_that_nobody_knows_is_not_found(at_server):
    client = at_server()
    for call in (client.state, client.cancel, client.drain, client.path, client.messages):
        assert code_of(lambda call=call: call("nobody"))[0] is grpc.StatusCode.NOT_FOUND


def test_a_job_cannot_be_run_twice(at_server):
    client = at_server()
    job_id = client.run()
    again = api.RunJobRequest(preparation_id=job_id)
    assert code_of(lambda: client.stub.Run(again))[0] is grpc.StatusCode.FAILED_PRECONDITION
    client.path(job_id)
    code, text = code_of(lambda: client.stub.Run(again))
    assert code is grpc.StatusCode.FAILED_PRECONDITION
    assert "DONE" in text


def test_a_file_that_is_not_what_its_hash_says_is_refused_and_the_job_says_so(at_server):
    client = at_server()
    role = beam_runner_api_pb2.ArtifactStagingToRolePayload(staged_name="lib.jar")
    told = beam_runner_api_pb2.ArtifactFilePayload(path="/client/lib.jar", sha256="0" * 64)
    offered = beam_runner_api_pb2.ArtifactInformation(
        type_urn="beam:artifact:type:file:v1",
        type_payload=told.SerializeToString(),
        role_urn="beam:artifact:role:staging_to:v1",
        role_payload=role.SerializeToString(),
    )
    pipeline = beam_runner_api_pb2.Pipeline()
    pipeline.components.environments["env"].dependencies.append(offered)
    job_id = client.prepare("wc", pipeline)
    wrapper = artifact_api.ArtifactResponseWrapper
    answers = [
        wrapper(staging_token=job_id),
        wrapper(resolve_artifact_response={"replacements": [offered]}),
        wrapper(get_artifact_response={"data": b"something else"}),
        wrapper(is_last=True),
    ]
    stub = beam_artifact_api_pb2_grpc.ArtifactStagingServiceStub(client.channel)
    code, text = code_of(lambda: list(stub.ReverseArtifactRetrievalService(iter(answers))))
    assert code is grpc.StatusCode.INVALID_ARGUMENT
    assert "lib.jar" in text
    client.stub.Run(api.RunJobRequest(preparation_id=job_id))
    assert client.path(job_id)[-1] == "FAILED"
    assert "lib.jar" in client.messages(job_id)[-1]


def test_artifacts_have_a_port_of_their_own_if_that_is_asked_for(at_server):
    client = at_server(artifact_port=0)
    answer = client.stub.Prepare(api.PrepareJobRequest(job_name="wc"))
    url = answer.artifact_staging_endpoint.url
    assert url != client.server.endpoint
    wrapper = artifact_api.ArtifactResponseWrapper(staging_token=answer.staging_session_token)
    with grpc.insecure_channel(url) as channel:
        stub = beam_artifact_api_pb2_grpc.ArtifactStagingServiceStub(channel)
        (asked,) = stub.ReverseArtifactRetrievalService(iter([wrapper, wrapper]))
        assert not asked.resolve_artifact.artifacts
    stub = beam_artifact_api_pb2_grpc.ArtifactStagingServiceStub(client.channel)
    code, _ = code_of(lambda: list(stub.ReverseArtifactRetrievalService(iter([wrapper]))))
    assert code is grpc.StatusCode.UNIMPLEMENTED


def test_what_a_driver_refuses_fails_the_job_as_in_process(at_server):
    engine = FakeEngine()
    client = at_server(engine)
    job_id = client.prepare()
    engine.refuse = Unsupported("'Read' has URN beam:x")
    client.stub.Run(api.RunJobRequest(preparation_id=job_id))
    assert client.path(job_id)[-1] == "FAILED"
    assert client.messages(job_id)[-1].startswith("'Read' has URN beam:x")
