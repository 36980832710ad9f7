"""Harnesses in containers, as far as a program under the name of docker can show it."""

from __future__ import annotations

import os
import sys

import apache_beam as beam
import pytest
from apache_beam.transforms import environments

from sparkdrain.fnapi.errors import HarnessNotStarted
from sparkdrain.fnapi.harness import Outside
from sparkdrain.fnapi.harnesses import Harnesses, HarnessJob
from tests.support.in_memory import run_in_memory

# What is said is written down; what is to run is run here.
DOCKER = f"""#!/bin/bash
echo "$@" >> "$TOLD"
[ "$1" = run ] || exit 0
while [ "$1" != own-image:1 ]; do shift; done
shift
exec {sys.executable} -m sparkdrain.cli.main worker "$@"
"""


@pytest.fixture
def run():
    harnesses = Harnesses()

    def run(build):
        pipeline = beam.Pipeline()
        build(pipeline)
        environment = environments.DockerEnvironment(
            container_image="own-image:1", capabilities=environments.python_sdk_capabilities()
        )
        ends = []
        outside = Outside(HarnessJob("job", {}, when_over=ends.append), harnesses)
        try:
            return run_in_memory(pipeline, 1, environment=environment, outside=outside)
        finally:
            for end in ends:
                end()

    yield run
    harnesses.close()


def test_a_container_runs_the_stages_and_is_removed(run, tmp_path, monkeypatch):
    docker, told, seen = tmp_path / "docker", tmp_path / "told", tmp_path / "seen"
    docker.write_text(DOCKER)
    docker.chmod(0o700)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, sys.path)))
    monkeypatch.setenv("TOLD", str(told))

    def see(element):
        with seen.open("a") as file:
            print(element, os.getppid(), file=file)

    run(lambda pipeline: pipeline | beam.Create([1, 2]) | beam.Map(see))
    lines = [line.split() for line in seen.read_text().splitlines()]
    assert sorted(element for element, _ in lines) == ["1", "2"]
    assert all(int(parent) != os.getpid() for _, parent in lines)
    ran, removed = told.read_text().splitlines()
    assert ran.startswith("run --rm --network=host --name=sparkdrain-")
    name = ran.partition("--name=")[2].split()[0]
    assert f"{name} own-image:1 --id=" in ran
    assert removed == f"rm --force {name}"


def test_an_executor_without_docker_is_told_with_the_image(run, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(HarnessNotStarted, match=r"own-image:1.*no 'docker'.*PROCESS"):
        run(lambda pipeline: pipeline | beam.Create([1]) | beam.Map(print))
