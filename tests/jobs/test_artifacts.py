from __future__ import annotations

import threading

import grpc
import pytest
from apache_beam.portability import common_urns
from apache_beam.portability.api import beam_artifact_api_pb2_grpc, beam_runner_api_pb2
from apache_beam.runners.portability import artifact_service
from apache_beam.utils.thread_pool_executor import UnboundedThreadPoolExecutor

from sparkdrain.errors import BadSetup
from sparkdrain.jobs.artifacts import Artifacts

FILE = common_urns.artifact_types.FILE.urn
STAGING_TO = common_urns.artifact_roles.STAGING_TO.urn


@pytest.fixture
def artifacts(tmp_path):
    return Artifacts(tmp_path / "staged")


@pytest.fixture
def offer(artifacts):
    """Offers what a pipeline depends on, as Beam's client does."""
    server = grpc.server(UnboundedThreadPoolExecutor())
    port = server.add_insecure_port("localhost:0")
    artifacts.serve(server)
    server.start()
    channel = grpc.insecure_channel(f"localhost:{port}")

    def stage(token: str) -> None:
        artifact_service.offer_artifacts(
            beam_artifact_api_pb2_grpc.ArtifactStagingServiceStub(channel),
            artifact_service.ArtifactRetrievalService(
                artifact_service.BeamFilesystemHandler(None).file_reader
            ),
            token,
        )

    yield stage
    channel.close()
    server.stop(None).wait()


def dependency(path, staged_name: str) -> beam_runner_api_pb2.ArtifactInformation:
    role = beam_runner_api_pb2.ArtifactStagingToRolePayload(staged_name=staged_name)
    return beam_runner_api_pb2.ArtifactInformation(
        type_urn=FILE,
        type_payload=beam_runner_api_pb2.ArtifactFilePayload(path=str(path)).SerializeToString(),
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
    collected = {entry.name: entry for entry in artifacts.collect("job-1", job)}
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
    (collected,) = artifacts.collect("job-1", job)
    assert collected.path.read_text() == "numpy"


def test_two_different_files_of_one_name_are_refused(artifacts, offer, tmp_path):
    one, two = file(tmp_path, "one", "1"), file(tmp_path, "two", "2")
    job = pipeline([dependency(one, "requirements.txt")], [dependency(two, "requirements.txt")])
    artifacts.expect("job-1", job)
    offer("job-1")
    with pytest.raises(BadSetup, match=r"different files as 'requirements\.txt'"):
        artifacts.collect("job-1", job)


def test_a_name_never_leads_out_of_the_jobs_directory(artifacts, offer, tmp_path):
    job = pipeline([dependency(file(tmp_path, "f", "x"), "../../../escaped")])
    artifacts.expect("job-1", job)
    offer("job-1")
    (collected,) = artifacts.collect("job-1", job)
    assert (tmp_path / "staged" / "job-1") in collected.path.parents


def test_without_dependencies_nothing_need_be_staged(artifacts):
    artifacts.expect("job-1", pipeline([]))
    assert artifacts.collect("job-1", pipeline([])) == ()


def test_files_that_never_came_are_named_a_fault_of_the_client(artifacts, tmp_path, monkeypatch):
    monkeypatch.setattr("sparkdrain.jobs.artifacts._STAGING_SECONDS", 0.01)
    job = pipeline([dependency(tmp_path / "f", "f")])
    artifacts.expect("job-1", job)
    with pytest.raises(BadSetup, match=r"1 files .* were not staged before Run"):
        artifacts.collect("job-1", job)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_file_that_the_client_could_not_read_is_named(artifacts, offer, tmp_path):
    job = pipeline([dependency(tmp_path / "is-not-there", "f")])
    artifacts.expect("job-1", job)
    with pytest.raises(Exception, match="is-not-there"):
        offer("job-1")
    for thread in threading.enumerate():
        if thread.name.endswith("(resolve)"):
            thread.join(30)  # Beam's; its exception belongs to this test
    with pytest.raises(BadSetup, match="'is-not-there' was offered for staging but did not arrive"):
        artifacts.collect("job-1", job)


def test_forgetting_a_job_removes_its_files_and_only_its(artifacts, offer, tmp_path):
    job = pipeline([dependency(file(tmp_path, "f", "x"), "f")])
    for token in ("job-1", "job-2"):
        artifacts.expect(token, job)
        offer(token)
    (one,) = artifacts.collect("job-1", job)
    (two,) = artifacts.collect("job-2", job)
    artifacts.forget("job-1")
    artifacts.forget("job-1")
    assert not one.path.exists()
    assert two.path.exists()


def test_a_forgotten_token_can_no_longer_be_used(artifacts, offer):
    artifacts.expect("job-1", pipeline([]))
    artifacts.forget("job-1")
    with pytest.raises(Exception, match="No such staging token"):
        offer("job-1")
