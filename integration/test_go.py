"""A program in Go's SDK runs on Spark from the worker binary that it stages; no container."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import grpc
import pytest
from apache_beam.portability.api import beam_job_api_pb2 as api

from sparkdrain.fnapi.errors import HarnessNotStarted
from sparkdrain.fnapi.go import go_command
from tests.support.job_client import JobClient
from tests.support.server_process import server_process

PROGRAM = Path(__file__).with_name("go")


def ran(program: Path, binary: Path, endpoint: str, *flags: str):
    return subprocess.run(
        [program, f"--endpoint={endpoint}", f"--worker_binary={binary}", "--numbers=1000", *flags],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def built(folder: Path) -> Path:
    """The binary of the program."""
    binary = folder / "exact"
    build = ["go", "build", "-o", binary, "."]
    subprocess.run(build, cwd=PROGRAM, check=True, timeout=1200)
    return binary


def built_for(system: str, machine: str, folder: Path) -> Path:
    """A binary that the Go compiler makes for a system."""
    source, binary = folder / "main.go", folder / f"{system}-{machine}"
    source.write_text("package main\n\nfunc main() {}\n")
    env = {**os.environ, "GOOS": system, "GOARCH": machine, "CGO_ENABLED": "0"}
    build = ["go", "build", "-o", binary, source]
    subprocess.run(build, cwd=folder, env=env, check=True, timeout=600)
    return binary


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    ("system", "machine", "told"),
    [
        ("darwin", "arm64", "darwin/arm64"),
        ("darwin", "amd64", "darwin/amd64"),
        ("windows", "amd64", "windows"),
        ("linux", "riscv64", "linux/riscv64"),
    ],
)
def test_a_binary_that_go_made_for_another_system_is_known(tmp_path, system, machine, told):
    if shutil.which("go") is None:
        pytest.skip("there is no Go compiler here")
    binary = built_for(system, machine, tmp_path)
    with pytest.raises(HarnessNotStarted, match=f"is for {told}, and this executor runs"):
        go_command(binary, {}, "id", "unix:here", tmp_path)


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(1800)
def test_a_go_program_finds_what_it_expects_and_fails_if_it_does_not(tmp_path):
    """Groups, sums, a side input, state, timers and a splittable DoFn, each checked inside."""
    if shutil.which("go") is None:
        pytest.skip("there is no Go compiler here")
    exact, other = built(tmp_path), built_for("darwin", "arm64", tmp_path)
    with server_process("--warm=off") as (_process, endpoint):
        done = ran(exact, exact, endpoint)
        assert done.returncode == 0, done.stdout + done.stderr
        assert done.stdout == "read 1000\n"
        failed = ran(exact, exact, endpoint, "--wrong")
        assert failed.returncode == 1
        assert "sums/" in failed.stdout
        assert "actual PCollection does not match expected values" in failed.stdout.splitlines()[1]
        assert "pump.py" not in failed.stdout, "it is nothing to a user of Go"
        refused = ran(exact, other, endpoint)
        assert refused.returncode == 1
        assert "worker binary is for darwin/arm64" in refused.stdout
        looped = ran(exact, exact, endpoint, "--environment_type=LOOPBACK")
        assert looped.returncode == 0, looped.stdout + looped.stderr
        assert looped.stdout == "read 1000\n"
        with grpc.insecure_channel(endpoint) as channel:
            client = JobClient(channel)
            jobs = client.jobs()
            done = [job.job_id for job in jobs if job.state == api.JobState.DONE]
            by_id, in_full = map(client.counts, done)
            warnings = [
                [text for text in client.messages(job_id) if "halfway" in text] for job_id in done
            ]
        # Over LOOPBACK the client logs messages of the job in the process of the harness.
        assert [[text.rpartition(": ")[2] for text in each] for each in warnings] == [
            ["halfway"]
        ] * 2
        # The harness of a pool is not told that it may send metrics by short ids alone.
        assert 1000 in by_id
        assert by_id == in_full
        sampled = ran(exact, exact, endpoint, "--experiments=enable_data_sampling")
        assert sampled.returncode == 0, sampled.stdout + sampled.stderr
        key = b"\x05key ".hex()
        assert re.search(rf"Sample of main\.byKey: \d+ bytes, {key}", sampled.stderr)


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(1800)
def test_a_batch_job_whose_worker_is_killed_is_run_again_and_exact(tmp_path):
    if shutil.which("go") is None:
        pytest.skip("there is no Go compiler here")
    exact, mark = built(tmp_path), tmp_path / "killed"
    with server_process("--warm=off", "--spark-master-url=local[2]") as (_process, endpoint):
        done = ran(exact, exact, endpoint, f"--mark={mark}")
        assert done.returncode == 0, done.stdout + done.stderr
        assert done.stdout == "read 1000\n"
        assert mark.read_text().isdigit()
        with grpc.insecure_channel(endpoint) as channel:
            client = JobClient(channel)
            (job,) = client.jobs()
            assert client.later_attempts(job.job_id) == [2]
            assert client.committed(job.job_id, "read") == [1000]
