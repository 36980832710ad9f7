from __future__ import annotations

import hashlib
import os
import threading
import time

import grpc
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.portability import common_urns
from apache_beam.portability.api import (
    beam_artifact_api_pb2,
    beam_artifact_api_pb2_grpc,
    beam_runner_api_pb2,
)
from apache_beam.runners.portability import artifact_service
from apache_beam.transforms.environments import AnyOfEnvironment
from apache_beam.utils.thread_pool_executor import UnboundedThreadPoolExecutor

from sparkdrain.errors import BadSetup
from sparkdrain.jobs.artifacts import Artifacts
from sparkdrain.jobs.kept_files import KeptFiles
from sparkdrain.submission import ServiceHandle
from tests.support.waiting import wait_until

DOCKER = common_urns.environments.DOCKER.urn
FILE = common_urns.artifact_types.FILE.urn
STAGING_TO = common_urns.artifact_roles.STAGING_TO.urn


@pytest.fixture
def artifacts(tmp_path):
    return Artifacts(tmp_path / "staged")


@pytest.fixture
def endpoint(artifacts):
    server = grpc.server(UnboundedThreadPoolExecutor())
    port = server.add_insecure_port("localhost:0")
    artifacts.serve(server)
    server.start()
    yield f"localhost:{port}"
    server.stop(None).wait()


@pytest.fixture
def channel(endpoint):
    with grpc.insecure_channel(endpoint) as channel:
        yield channel


@pytest.fixture
def offer(channel):
    """Offers what a pipeline depends on, as Beam's client does."""

    def stage(token: str) -> None:
        artifact_service.offer_artifacts(
            beam_artifact_api_pb2_grpc.ArtifactStagingServiceStub(channel),
            artifact_service.ArtifactRetrievalService(
                artifact_service.BeamFilesystemHandler(None).file_reader
            ),
            token,
        )

    return stage


def dependency(path, staged_name: str, sha256: str = "") -> beam_runner_api_pb2.ArtifactInformation:
    role = beam_runner_api_pb2.ArtifactStagingToRolePayload(staged_name=staged_name)
    payload = beam_runner_api_pb2.ArtifactFilePayload(path=str(path), sha256=sha256)
    return beam_runner_api_pb2.ArtifactInformation(
        type_urn=FILE,
        type_payload=payload.SerializeToString(),
        role_urn=STAGING_TO,
        role_payload=role.SerializeToString(),
    )


def pipeline(*environments) -> beam_runner_api_pb2.Pipeline:
    made = beam_runner_api_pb2.Pipeline()
    for number, dependencies in enumerate(environments):
        made.components.environments[f"env{number}"].dependencies.extend(dependencies)
    return made


def file(tmp_path, name: str, text: str):
    path = tmp_path / name
    path.write_text(text)
    return path


def test_staged_files_are_found_under_their_own_names(artifacts, offer, tmp_path):
    session = file(tmp_path, "session", "main" * 1_000_000)
    other = file(tmp_path, "other", "")
    job = pipeline([dependency(session, "pickled_main_session"), dependency(other, "a-1.tar.gz")])
    artifacts.expect("job-1", job)
    offer("job-1")
    collected = {entry.name: entry for entry in artifacts.collect("job-1")}
    assert set(collected) == {"pickled_main_session", "a-1.tar.gz"}
    main = collected["pickled_main_session"]
    assert main.path.name == main.name
    assert main.path.read_text() == "main" * 1_000_000
    assert main.path != session
    assert (main.role_urn, main.type_urn) == (STAGING_TO, FILE)


def test_a_file_that_environments_share_comes_once(artifacts, offer, tmp_path):
    path = file(tmp_path, "requirements", "numpy")
    entry = dependency(path, "requirements.txt")
    job = pipeline([entry], [entry])
    artifacts.expect("job-1", job)
    offer("job-1")
    (collected,) = artifacts.collect("job-1")
    assert collected.path.read_text() == "numpy"


def test_our_client_stages_what_only_one_of_several_environments_needs(
    artifacts, endpoint, tmp_path
):
    jar = dependency(file(tmp_path, "jar", "classes"), "java.jar")
    container = beam_runner_api_pb2.Environment(urn=DOCKER, dependencies=[jar])
    job = pipeline()
    either = AnyOfEnvironment.create_proto([container, beam_runner_api_pb2.Environment()])
    job.components.environments["java"].CopyFrom(either)
    artifacts.expect("job-1", job)
    ServiceHandle(endpoint, PipelineOptions([])).stage(job, endpoint, "job-1")
    (collected,) = artifacts.collect("job-1")
    assert collected.path.read_text() == "classes"


def test_two_different_files_of_one_name_are_refused(artifacts, offer, tmp_path):
    one, two = file(tmp_path, "one", "1"), file(tmp_path, "two", "2")
    job = pipeline([dependency(one, "requirements.txt")], [dependency(two, "requirements.txt")])
    artifacts.expect("job-1", job)
    offer("job-1")
    with pytest.raises(BadSetup, match=r"different files as 'requirements\.txt'"):
        artifacts.collect("job-1")


def test_a_name_never_leads_out_of_the_jobs_directory(artifacts, offer, tmp_path):
    job = pipeline([dependency(file(tmp_path, "f", "x"), "../../../escaped")])
    artifacts.expect("job-1", job)
    offer("job-1")
    (collected,) = artifacts.collect("job-1")
    assert (tmp_path / "staged" / "job-1") in collected.path.parents


def test_without_dependencies_nothing_need_be_staged(artifacts):
    artifacts.expect("job-1", pipeline([]))
    assert artifacts.collect("job-1") == ()


def test_files_that_never_came_are_named_a_fault_of_the_client(artifacts, tmp_path, monkeypatch):
    monkeypatch.setattr("sparkdrain.jobs.artifacts._STAGING_SECONDS", 0.01)
    job = pipeline([dependency(tmp_path / "f", "f")])
    artifacts.expect("job-1", job)
    with pytest.raises(BadSetup, match=r"1 files .* were not staged before Run"):
        artifacts.collect("job-1")


def test_a_file_that_the_client_could_not_read_is_named(artifacts, offer, tmp_path):
    job = pipeline([dependency(tmp_path / "is-not-there", "f")])
    artifacts.expect("job-1", job)
    with pytest.raises(Exception, match="is-not-there"):
        offer("job-1")
    with pytest.raises(BadSetup, match="'is-not-there' was offered for staging but did not arrive"):
        artifacts.collect("job-1")


def test_forgetting_a_job_removes_its_files_and_only_its(artifacts, offer, tmp_path):
    job = pipeline([dependency(file(tmp_path, "f", "x"), "f")])
    for token in ("job-1", "job-2"):
        artifacts.expect(token, job)
        offer(token)
    (one,) = artifacts.collect("job-1")
    (two,) = artifacts.collect("job-2")
    artifacts.forget("job-1")
    artifacts.forget("job-1")
    assert not one.path.exists()
    assert two.path.exists()


def test_a_forgotten_token_can_no_longer_be_used(artifacts, offer):
    artifacts.expect("job-1", pipeline([]))
    artifacts.forget("job-1")
    with pytest.raises(grpc.RpcError, match="No such staging token"):
        offer("job-1")


def sha256(path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_a_file_with_another_content_than_its_hash_says_is_refused_to_its_client(
    artifacts, offer, tmp_path
):
    path = file(tmp_path, "a.jar", "as it was")
    job = pipeline([dependency(path, "a.jar", sha256(path))])
    path.write_text("as it is")
    artifacts.expect("job-1", job)
    with pytest.raises(grpc.RpcError, match=r"'a\.jar' has the SHA-256") as caught:
        offer("job-1")
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    with pytest.raises(BadSetup, match="should have"):
        artifacts.collect("job-1")


def test_a_client_that_failed_may_come_again(artifacts, offer, tmp_path):
    path = tmp_path / "late"
    job = pipeline([dependency(path, "late")])
    artifacts.expect("job-1", job)
    with pytest.raises(Exception, match="late"):
        offer("job-1")
    path.write_text("here")
    offer("job-1")
    (collected,) = artifacts.collect("job-1")
    assert collected.path.read_text() == "here"


def test_a_client_that_vanishes_leaves_no_part_of_a_file(artifacts, channel, tmp_path):
    artifacts.expect("job-1", pipeline([dependency("/client/big", "big")]))
    stub = beam_artifact_api_pb2_grpc.ArtifactStagingServiceStub(channel)
    sent = threading.Event()
    wrapper = beam_artifact_api_pb2.ArtifactResponseWrapper

    def half_a_file():
        yield wrapper(staging_token="job-1")
        yield wrapper(
            resolve_artifact_response=beam_artifact_api_pb2.ResolveArtifactsResponse(
                replacements=[dependency("/client/big", "big")]
            )
        )
        chunk = beam_artifact_api_pb2.GetArtifactResponse(data=b"x" * 1_000_000)
        yield wrapper(get_artifact_response=chunk)
        sent.wait(30)

    call = stub.ReverseArtifactRetrievalService(half_a_file())
    wait_until(lambda: list(tmp_path.glob("staged/job-1/*.part")))
    call.cancel()
    sent.set()
    wait_until(lambda: not list(tmp_path.glob("staged/job-1/*")))


def retrieve(channel, offered) -> bytes:
    stub = beam_artifact_api_pb2_grpc.ArtifactRetrievalServiceStub(channel)
    request = beam_artifact_api_pb2.ResolveArtifactsRequest(artifacts=[offered])
    (found,) = stub.ResolveArtifacts(request).replacements
    chunks = stub.GetArtifact(beam_artifact_api_pb2.GetArtifactRequest(artifact=found))
    return b"".join(chunk.data for chunk in chunks)


def test_what_was_staged_can_be_had_and_its_content_is_checked(artifacts, offer, channel, tmp_path):
    path = file(tmp_path, "a.jar", "x" * 3_000_000)
    offered = dependency(path, "a.jar", sha256(path))
    job = pipeline([offered])
    artifacts.expect("job-1", job)
    offer("job-1")
    assert retrieve(channel, offered) == path.read_bytes()
    (collected,) = artifacts.collect("job-1")
    assert retrieve(channel, offered) == path.read_bytes()
    collected.path.write_text("changed here")
    with pytest.raises(grpc.RpcError, match=r"'a\.jar' has the SHA-256") as caught:
        retrieve(channel, offered)
    assert caught.value.code() is grpc.StatusCode.DATA_LOSS


def test_no_other_file_of_the_machine_can_be_had(channel, tmp_path):
    secret = dependency(file(tmp_path, "secret", "x"), "secret")
    with pytest.raises(grpc.RpcError) as caught:
        retrieve(channel, secret)
    assert caught.value.code() is grpc.StatusCode.NOT_FOUND
    stub = beam_artifact_api_pb2_grpc.ArtifactRetrievalServiceStub(channel)
    with pytest.raises(grpc.RpcError) as caught:
        list(stub.GetArtifact(beam_artifact_api_pb2.GetArtifactRequest(artifact=secret)))
    assert caught.value.code() is grpc.StatusCode.NOT_FOUND


def test_a_file_that_was_staged_before_is_not_asked_for_again(artifacts, offer, tmp_path):
    path = file(tmp_path, "a.jar", "content")
    job = pipeline([dependency(path, "a.jar", sha256(path))])
    artifacts.expect("job-1", job)
    offer("job-1")
    (one,) = artifacts.collect("job-1")
    artifacts.forget("job-1")
    path.unlink()
    artifacts.expect("job-2", job)
    offer("job-2")
    (two,) = artifacts.collect("job-2")
    assert two.path.read_text() == "content"
    assert two.path != one.path
    artifacts.close()
    artifacts.expect("job-3", job)
    with pytest.raises(Exception, match=r"a\.jar"):
        offer("job-3")


def test_a_job_that_changes_its_file_does_not_change_that_of_another_job(
    artifacts, offer, tmp_path
):
    path = file(tmp_path, "a.jar", "content")
    job = pipeline([dependency(path, "a.jar", sha256(path))])
    found = []
    for token in ("job-1", "job-2", "job-3"):
        artifacts.expect(token, job)
        offer(token)
        (collected,) = artifacts.collect(token)
        found.append(collected.path)
        assert collected.path.read_text() == "content"
        collected.path.write_text(token)
    assert [each.read_text() for each in found] == ["job-1", "job-2", "job-3"]


def test_of_kept_files_those_go_that_were_not_used_for_longest(tmp_path):
    kept = KeptFiles(tmp_path / "kept", most_bytes=25)
    paths = [file(tmp_path, name, name * 10) for name in "abc"]
    a, b, c = hashes = [sha256(path) for path in paths]
    kept.keep(paths[0], a)
    kept.keep(paths[1], b)
    assert kept.put(a, tmp_path / "copy")
    kept.keep(paths[2], c)
    there = [kept.put(known, tmp_path / "copy") for known in hashes]
    assert there == [True, False, True]
    assert {each.name for each in (tmp_path / "kept").iterdir()} == {a, c}
    assert not kept.put("../a", tmp_path / "copy")


def test_a_kept_file_that_was_changed_is_not_used_though_its_time_was_set_back(tmp_path):
    path = file(tmp_path, "a.jar", "content")
    known, place = sha256(path), tmp_path / "kept"
    kept = KeptFiles(place)
    kept.keep(path, known)
    path.write_text("changed")
    assert kept.put(known, tmp_path / "copy"), "no job has a link to what is kept"
    assert (tmp_path / "copy").read_text() == "content"
    before = (place / known).stat()
    time.sleep(0.02)  # clocks of disks go in steps
    (place / known).write_text("CONTENT")
    os.utime(place / known, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert not kept.put(known, tmp_path / "copy")
    assert not (place / known).exists()
    kept.close()
    kept.keep(file(tmp_path, "b.jar", "content"), known)
    assert kept.put(known, tmp_path / "copy")


def test_what_is_kept_is_not_read_again_to_tell_its_content(tmp_path, monkeypatch):
    path = file(tmp_path, "a.jar", "content")
    known = sha256(path)
    kept = KeptFiles(tmp_path / "kept")
    kept.keep(path, known)
    monkeypatch.setattr(hashlib, "sha256", None)
    assert kept.put(known, tmp_path / "copy")


def test_the_upload_of_a_client_that_says_nothing_ends_and_the_job_says_so(tmp_path):
    artifacts = Artifacts(tmp_path / "staged", silent_seconds=0.5)
    server = grpc.server(UnboundedThreadPoolExecutor())
    port = server.add_insecure_port("localhost:0")
    artifacts.serve(server)
    server.start()
    offered = dependency("/client/lib.jar", "lib.jar")
    job = pipeline([offered])
    artifacts.expect("job-1", job)
    released = threading.Event()
    wrapper = beam_artifact_api_pb2.ArtifactResponseWrapper

    def answers():
        yield wrapper(staging_token="job-1")
        yield wrapper(resolve_artifact_response={"replacements": [offered]})
        yield wrapper(get_artifact_response={"data": b"the first part"})
        released.wait(60)

    with grpc.insecure_channel(f"localhost:{port}") as channel:
        stub = beam_artifact_api_pb2_grpc.ArtifactStagingServiceStub(channel)
        with pytest.raises(grpc.RpcError):
            list(stub.ReverseArtifactRetrievalService(answers(), timeout=20))
        with pytest.raises(BadSetup, match=r"'lib.jar' was offered .* sent nothing for 0\.5 sec"):
            artifacts.collect("job-1")
        assert not list((tmp_path / "staged").glob("*/*.part"))
        released.set()
    server.stop(None).wait()


def test_what_a_client_says_of_a_file_and_cannot_be_read_is_an_invalid_argument(artifacts, channel):
    offered = dependency("/client/lib.jar", "lib.jar")
    damaged = dependency("/client/lib.jar", "lib.jar")
    damaged.type_payload = b"\xff\xff"
    job = pipeline([offered])
    artifacts.expect("job-1", job)
    wrapper = beam_artifact_api_pb2.ArtifactResponseWrapper
    answers = [
        wrapper(staging_token="job-1"),
        wrapper(resolve_artifact_response={"replacements": [damaged]}),
    ]
    staging = beam_artifact_api_pb2_grpc.ArtifactStagingServiceStub(channel)
    retrieval = beam_artifact_api_pb2_grpc.ArtifactRetrievalServiceStub(channel)
    resolve = beam_artifact_api_pb2.ResolveArtifactsRequest(artifacts=[damaged])
    get = beam_artifact_api_pb2.GetArtifactRequest(artifact=damaged)
    for call in (
        lambda: list(staging.ReverseArtifactRetrievalService(iter(answers))),
        lambda: retrieval.ResolveArtifacts(resolve),
        lambda: list(retrieval.GetArtifact(get)),
    ):
        with pytest.raises(grpc.RpcError, match="cannot be read as ArtifactFilePayload") as caught:
            call()
        assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    with pytest.raises(BadSetup, match="cannot be read as ArtifactFilePayload"):
        artifacts.collect("job-1")
