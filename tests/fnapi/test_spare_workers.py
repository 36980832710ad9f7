"""Python harnesses that wait for the next job of their process, with Beam imported."""

from __future__ import annotations

import contextlib
import os
import signal
import sys

import apache_beam as beam
import psutil
import pytest
from apache_beam.runners import pipeline_context
from apache_beam.transforms import environments

from sparkdrain.fnapi import spare_worker
from sparkdrain.fnapi.harness import Outside
from sparkdrain.fnapi.harnesses import Harnesses, HarnessJob
from tests.support.in_memory import run_in_memory
from tests.support.waiting import wait_until

WORKER = f"{sys.executable} -m sparkdrain.cli.main worker"


def guarded() -> dict[int, list[str]]:
    """Harnesses that this process has started, and their guards, which are there at once."""
    found = {}
    for each in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            found[each.pid] = each.cmdline()
    return {pid: words for pid, words in found.items() if "sparkdrain.cli.main" in words}


def waiting() -> list[int]:
    """Harnesses that this process has started."""
    return [pid for pid, words in guarded().items() if "sparkdrain.cli.main" in words[:4]]


@pytest.fixture
def program(tmp_path):
    """Runs jobs one after another, as a slot's process does; the process that user code had."""
    harnesses, file = Harnesses(), tmp_path / "pids"

    def note(element):
        with file.open("a") as out:
            print(os.getpid(), element, file=out)

    def run(name):
        pipeline = beam.Pipeline()
        _ = pipeline | beam.Create([name]) | beam.Map(note)
        environment = environments.ProcessEnvironment(
            WORKER,
            env={"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            capabilities=environments.python_sdk_capabilities(),
        )
        ends = []
        outside = Outside(HarnessJob(name, {}, when_over=ends.append), harnesses)
        run_in_memory(pipeline, 1, environment=environment, outside=outside)
        for end in ends:
            end()
        pid, noted = file.read_text().splitlines()[-1].split()
        assert noted == name
        return int(pid)

    run.close = harnesses.close
    yield run
    harnesses.close()


def test_a_harness_waits_for_the_third_job_if_it_can_be_used(program, monkeypatch):
    program("first")
    assert not guarded(), "a single job leaves none behind"
    program("second")
    (spare,) = wait_until(waiting)
    assert program("third") == spare
    (other,) = wait_until(waiting)
    monkeypatch.setenv("OF_THIS_JOB", "set")
    assert program("fourth") not in {spare, other}
    assert not psutil.pid_exists(other)
    (dead,) = wait_until(waiting)
    os.kill(dead, signal.SIGKILL)
    wait_until(lambda: not waiting())
    assert program("fifth") != dead
    (last,) = wait_until(waiting)
    program.close()
    assert not psutil.pid_exists(last)


def test_none_waits_for_long(program, monkeypatch):
    monkeypatch.setattr(spare_worker, "_WAIT_SECONDS", 0.5)
    program("first")
    program("second")
    (spare,) = wait_until(waiting)
    wait_until(lambda: not psutil.pid_exists(spare))


@pytest.mark.parametrize(
    ("command", "is_own"),
    [
        ("sparkdrain worker", True),
        ("/opt/venv/bin/sparkdrain worker", True),
        ("nice -n 5 python -m sparkdrain.cli.main worker", True),
        ("bash -c 'exec sparkdrain worker \"$@\"' --", False),
        ("/opt/apache/beam/boot", False),
    ],
)
def test_what_another_command_does_before_there_is_a_job_is_not_known(command, is_own):
    environment = environments.ProcessEnvironment(command).to_runner_api(
        pipeline_context.PipelineContext()
    )
    assert spare_worker._is_own(environment) == is_own
