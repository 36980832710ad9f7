"""A program in Java's SDK runs on Spark from the jars that it stages; no container is there."""

from __future__ import annotations

import os
import re
import shutil
import threading
from contextlib import contextmanager, suppress
from pathlib import Path

import grpc
import pytest
from java_program import compiled, ran

from sparkdrain.fnapi.java import can_share, java_program
from sparkdrain.fnapi.shared_process import PROGRAM
from tests.support.job_client import JobClient
from tests.support.server_process import server_process

MARK = "JAVA_PROGRAM_OF_TEST"


@contextmanager
def _watched():
    """By the id of a JVM that slots share, how many harnesses it has had at a time."""
    seen: dict[str, int] = {}
    is_over = threading.Event()
    mark = f"{MARK}={os.environ[MARK]}".encode()

    def look() -> None:
        while not is_over.wait(0.1):
            for process in Path("/proc").glob("[0-9]*"):
                with suppress(OSError):
                    words = (process / "cmdline").read_text(errors="replace").split("\0")
                    if "java" not in words[0] or not any(word.endswith(PROGRAM) for word in words):
                        continue
                    if mark in (process / "environ").read_bytes().split(b"\0"):
                        threads = [each.read_text() for each in process.glob("task/*/comm")]
                        count = threads.count("sparkdrain-harn\n")
                        seen[process.name] = max(seen.get(process.name, 0), count)

    looks = threading.Thread(target=look)
    looks.start()
    try:
        yield seen
    finally:
        is_over.set()
        looks.join()


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("kind", [[], ["--streaming"]], ids=["batch", "stream"])
def test_a_java_program_finds_what_it_expects(tmp_path, kind, monkeypatch):
    """Groups, sums, a side input, state, timers and a splittable DoFn, each checked inside.

    Two slots share one JVM. What is counted for the JVM counts once, and equals what the step
    counts. A job tells each log record of user code once, with the name of its step.
    """
    if shutil.which("javac") is None:
        pytest.skip("there is no Java compiler here")
    jar = compiled(tmp_path)
    monkeypatch.setenv(MARK, str(tmp_path))
    master = "--spark-master-url=local[2]"
    with server_process("--warm=off", master) as (_process, endpoint), _watched() as harnesses:
        done = ran(jar, endpoint, "--numbers=1000", *kind)
        with grpc.insecure_channel(endpoint) as channel:
            client = JobClient(channel)
            (job,) = client.jobs()
            told = [text for text in client.messages(job.job_id) if "There is key" in text]
            counts = client.counts(job.job_id)
            requests = client.of_urn(job.job_id, "beam:metric:io:api_request_count:v1")
    assert done.returncode == 0, done.stderr
    assert "read 1000\n" in done.stdout
    assert "state DONE" in done.stdout
    # Its harnesses send metrics by short ids alone.
    assert counts.count(1000) > 1
    assert requests == [1000]
    if can_share(java_program()):
        (at_a_time,) = harnesses.values()
        assert at_a_time >= 2
    assert len(told) == 10
    for key in range(10):
        assert any(re.fullmatch(rf"Size\S*: There is key {key}", text) for text in told), told


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(1800)
def test_a_batch_job_whose_jvm_is_killed_is_run_again_and_exact(tmp_path):
    if shutil.which("javac") is None:
        pytest.skip("there is no Java compiler here")
    jar, mark = compiled(tmp_path), tmp_path / "killed"
    with server_process("--warm=off", "--spark-master-url=local[2]") as (_process, endpoint):
        done = ran(jar, endpoint, "--numbers=1000", f"--mark={mark}")
        assert done.returncode == 0, done.stderr
        assert "state DONE" in done.stdout
        assert mark.read_text().isdigit()
        with grpc.insecure_channel(endpoint) as channel:
            client = JobClient(channel)
            (job,) = client.jobs()
            assert client.later_attempts(job.job_id) == [2]
            assert client.committed(job.job_id, "read") == [1000]
