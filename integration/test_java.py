"""A program in Java's SDK runs on Spark from the jars that it stages; no container is there."""

from __future__ import annotations

import re
import shutil
import subprocess

import grpc
import pytest
from apache_beam.portability.api import beam_job_api_pb2 as api
from java_program import command, compiled

from tests.support.job_client import JobClient
from tests.support.server_process import server_process


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("kind", [[], ["--streaming"]], ids=["batch", "stream"])
def test_a_java_program_finds_what_it_expects(tmp_path, kind):
    """Groups, sums, a side input, state, timers and a splittable DoFn, each checked inside.

    Slots share a JVM: each log record of user code is told once, with the name of its step.
    """
    if shutil.which("javac") is None:
        pytest.skip("there is no Java compiler here")
    jar = compiled(tmp_path)
    with server_process("--warm=off") as (_process, endpoint):
        done = subprocess.run(
            command(jar, endpoint, "--numbers=1000", *kind),
            capture_output=True,
            text=True,
            check=False,
            timeout=900,
        )
        with grpc.insecure_channel(endpoint) as channel:
            client = JobClient(channel)
            (job,) = client.stub.GetJobs(api.GetJobsRequest()).job_info
            told = [text for text in client.messages(job.job_id) if "There is key" in text]
    assert done.returncode == 0, done.stderr
    assert "read 1000\n" in done.stdout
    assert "state DONE" in done.stdout
    assert len(told) == 10
    for key in range(10):
        assert any(re.fullmatch(rf"Size\S*: There is key {key}", text) for text in told), told
