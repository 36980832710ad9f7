"""A program in Java's SDK runs in what a command starts: one process for several slots."""

from __future__ import annotations

import json
import os
import shutil
from typing import TYPE_CHECKING

import grpc
import pytest
from java_program import class_path, compiled, ran

from tests.support.job_client import JobClient
from tests.support.server_process import server_process
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.timeout(1800)]

# What the program of Beam's images does, for jars that are there.
BOOT = """#!/bin/bash
for word; do
  case $word in
    --id=*) export HARNESS_ID=${word#--id=};;
    --control_endpoint=*) here="url: \\"${word#--control_endpoint=}\\"";;
  esac
done
export CONTROL_API_SERVICE_DESCRIPTOR=$here LOGGING_API_SERVICE_DESCRIPTOR=$here
export STATUS_API_SERVICE_DESCRIPTOR=$here PIPELINE_OPTIONS={}
export RUNNER_CAPABILITIES=beam:protocol:monitoring_info_short_ids:v1
echo $$ >> "$STARTED"
exec java -cp "$JARS" org.apache.beam.fn.harness.FnHarness
"""


@pytest.fixture
def program(tmp_path):
    """A program, and the options by which a command starts its harness."""
    if shutil.which("javac") is None:
        pytest.skip("there is no Java compiler here")
    jar, boot = compiled(tmp_path), tmp_path / "boot"
    boot.write_text(BOOT)
    boot.chmod(0o700)
    jars = os.pathsep.join(map(str, [jar, *class_path()]))
    config = {"command": str(boot), "env": {"STARTED": str(tmp_path / "started"), "JARS": jars}}
    return jar, [
        "--defaultEnvironmentType=PROCESS",
        f"--defaultEnvironmentConfig={json.dumps(config)}",
    ]


def started(folder: Path) -> list[str]:
    """The processes that were started."""
    return (folder / "started").read_text().split()


@pytest.mark.parametrize("kind", [[], ["--streaming"]], ids=["batch", "stream"])
def test_two_slots_share_a_process_in_which_all_is_as_it_is_to_be(tmp_path, program, kind):
    jar, options = program
    with server_process("--warm=off", "--spark-master-url=local[2]") as (_process, endpoint):
        done = ran(jar, endpoint, "--numbers=1000", *options, *kind)
        with grpc.insecure_channel(endpoint) as channel:
            client = JobClient(channel)
            (job,) = client.jobs()
            messages = list(client.messages(job.job_id))
            counts = client.counts(job.job_id)
    assert done.returncode == 0, done.stderr
    assert "read 1000\n" in done.stdout
    assert "state DONE" in done.stdout
    assert counts.count(1000) > 1, counts
    assert sum("There is key" in text for text in messages) == 10
    assert not [text for text in messages if "Multiplexer" in text or "CANCELLED" in text]
    assert len(started(tmp_path)) == 1
    wait_until(lambda: not os.path.exists(f"/proc/{started(tmp_path)[0]}"))


def test_a_job_whose_process_is_killed_is_run_again_and_exact(tmp_path, program):
    jar, options = program
    with server_process("--warm=off", "--spark-master-url=local[2]") as (_process, endpoint):
        done = ran(jar, endpoint, "--numbers=1000", f"--mark={tmp_path / 'killed'}", *options)
        assert done.returncode == 0, done.stderr
        assert "state DONE" in done.stdout
        with grpc.insecure_channel(endpoint) as channel:
            client = JobClient(channel)
            (job,) = client.jobs()
            assert client.later_attempts(job.job_id) == [2]
            assert client.committed(job.job_id, "read") == [1000]
    assert len(started(tmp_path)) == 2
