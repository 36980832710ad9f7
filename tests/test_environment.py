"""Files that are made for staging go with their process; packages come from a private cache."""

from __future__ import annotations

import os
import stat
import textwrap
from pathlib import Path

import pytest
from apache_beam.options.pipeline_options import PipelineOptions, SetupOptions
from apache_beam.runners.portability import stager

from sparkdrain.environment import default_environment
from sparkdrain.errors import BadOption
from tests.support.stranger import UID, as_stranger


def test_nothing_is_left_of_an_environment_without_a_directory(python, tmp_path):
    program = """
        import apache_beam as beam
        from apache_beam.options.pipeline_options import PipelineOptions
        from sparkdrain.environment import default_environment

        there = []
        for _ in range(2):
            environment = default_environment(PipelineOptions(["--save_main_session"]))
            for artifact in environment.artifacts():
                there.append(beam.io.filesystems.FileSystems.exists(path_of(artifact)))
        print(there)
    """
    path_of = """
        from apache_beam.portability.api import beam_runner_api_pb2
        def path_of(artifact):
            payload = beam_runner_api_pb2.ArtifactFilePayload()
            payload.ParseFromString(artifact.type_payload)
            return payload.path
    """
    code = textwrap.dedent(path_of) + textwrap.dedent(program)
    done = python("-c", code, TMPDIR=str(tmp_path))
    assert done.stdout.strip() == "[True, True]", done.stderr
    assert list(tmp_path.glob("sparkdrain*")) == []


@pytest.fixture
def downloaded(monkeypatch):
    """Stands for pip: the folders that packages were downloaded to, one file each."""
    folders: list[Path] = []

    def populate(requirements: str, folder: str, *_more: object) -> set[str]:
        folders.append(Path(folder))
        Path(folder, "a-1.tar.gz").touch()
        return {"a-1.tar.gz"}

    monkeypatch.setattr(stager.Stager, "_populate_requirements_cache", staticmethod(populate))
    return folders


@pytest.fixture
def environment(tmp_path, monkeypatch):
    """Makes an environment for a job with a requirement and these flags; its options."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    for name in ("tmp", "stage"):
        (tmp_path / name).mkdir()
    requirements = tmp_path / "requirements.txt"
    requirements.write_text("a\n")

    def make(*flags: str, needs: bool = True) -> PipelineOptions:
        needed = [f"--requirements_file={requirements}"] if needs else []
        options = PipelineOptions([*needed, *flags])
        default_environment(options, str(tmp_path / "stage"))
        return options

    return make


def test_the_urns_of_beam_ask_for_what_their_names_ask_for():
    """A pool in the program, and this Python with all that workers need of the program."""

    def urn(*flags: str) -> str:
        return default_environment(PipelineOptions([*flags])).to_runner_api(None).urn

    pool = urn("--environment_type=LOOPBACK")
    assert pool == "beam:env:external:v1"
    assert urn("--environment_type=beam:env:embedded_python_loopback:v1") == pool
    usual, named = (
        default_environment(PipelineOptions(flags))
        for flags in ([], ["--environment_type=beam:env:embedded_python:v1"])
    )
    assert usual == named


def test_packages_are_kept_where_no_other_user_can_put_any(environment, downloaded, tmp_path):
    predictable = tmp_path / "tmp" / "beam-requirements-cache"
    predictable.mkdir()
    before = os.umask(0)
    try:
        options = environment()
    finally:
        os.umask(before)
    assert set(downloaded) == {tmp_path / "cache" / "sparkdrain" / "requirements"}
    assert stat.S_IMODE(downloaded[0].stat().st_mode) == 0o700
    assert os.listdir(predictable) == []
    assert options.view_as(SetupOptions).requirements_cache is None


def test_a_job_without_requirements_makes_no_cache(environment, downloaded, tmp_path):
    environment(needs=False)
    assert downloaded == []
    assert os.listdir(tmp_path / "tmp") == []
    assert not (tmp_path / "cache").exists()


def test_other_environments_use_the_same_cache(environment, downloaded, tmp_path):
    environment("--environment_type=PROCESS", "--environment_option=process_command=/bin/true")
    assert set(downloaded) == {tmp_path / "cache" / "sparkdrain" / "requirements"}


def test_a_cache_of_the_users_own_is_used(environment, downloaded, tmp_path):
    environment(f"--requirements_cache={tmp_path}/mine")
    assert set(downloaded) == {tmp_path / "mine"}
    environment("--requirements_cache=skip")
    assert set(downloaded) == {tmp_path / "mine"}


def test_a_cache_that_others_may_write_is_refused(environment, downloaded, tmp_path):
    rash = tmp_path / "rash"
    rash.mkdir()
    rash.chmod(0o1777)
    with pytest.raises(BadOption, match=f"from {rash}, which may be written by other users"):
        environment(f"--requirements_cache={rash}")
    assert downloaded == []


@as_stranger
def test_a_cache_of_another_user_is_refused(environment, downloaded, tmp_path):
    theirs = tmp_path / "cache" / "sparkdrain" / "requirements"
    theirs.mkdir(parents=True)
    os.chown(theirs, UID, -1)
    with pytest.raises(BadOption, match=f"which belongs to the user {UID}"):
        environment()
    assert downloaded == []


def test_a_cache_that_cannot_be_made_is_told(environment, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(BadOption, match=r"Packages cannot be kept in .*/file/x"):
        environment(f"--requirements_cache={tmp_path}/file/x")
