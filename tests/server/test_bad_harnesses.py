"""Slow: harnesses that do not do what they should, at a server on Spark, which goes on."""

from __future__ import annotations

import json
import logging
import os
import shlex
import signal
import socket
import sys
import time

import apache_beam as beam
import grpc
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from grpc_health.v1 import health_pb2, health_pb2_grpc

from tests.support.job_client import JobClient
from tests.support.server_process import server_process
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.spark]

WORKER = f"{sys.executable} -m sparkdrain.cli.main worker"
GARBAGE = f"{sys.executable} -m tests.support.garbage_harness"


def submit(endpoint: str, function, type_: str, config: str) -> str:
    """Submit a job whose Map runs in an environment; its id."""
    options = PipelineOptions(
        [
            "--runner=PortableRunner",
            f"--job_endpoint={endpoint}",
            "--spark_master_url=local[1]",
            f"--environment_type={type_}",
            f"--environment_config={config}",
        ]
    )
    pipeline = beam.Pipeline(options=options)
    pipeline | beam.Create([1, 2]) | "Mine" >> beam.Map(function)
    return pipeline.run()._job_id


def process(command: str) -> str:
    path = os.pathsep.join(filter(None, sys.path))
    return json.dumps({"command": command, "env": {"PYTHONPATH": path}})


def run(client, endpoint: str, function, command: str) -> tuple[str, list[str]]:
    """The last state of a job whose Map runs in a process of that command, and its messages."""
    job_id = submit(endpoint, function, "PROCESS", process(command))
    return client.path(job_id)[-1], client.messages(job_id)


def die(_) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def fail(number: int) -> None:
    message = f"no {number}"
    raise ValueError(message)


def log(number: int) -> None:
    logging.getLogger("mine").info("seen %s", number)


def test_each_bad_harness_fails_its_own_job_with_what_to_do_and_the_server_goes_on():
    with (
        server_process("--max-jobs=1") as (_, endpoint),
        grpc.insecure_channel(endpoint) as channel,
    ):
        client = JobClient(channel)
        for function, command, *told in (
            (log, "there-is-none --flag", "there-is-none", "--environment_config"),
            (log, f"{sys.executable} -c 'exit(\"no such library\")'", "no such library"),
            (die, WORKER, "The SDK harness of a stage was lost", "with the signal SIGKILL"),
            (fail, WORKER, "ValueError: no ", "Mine"),
            (log, f"{GARBAGE} error", "something is wrong in here"),
            (log, f"{GARBAGE} messages", "no message of the Fn API", "the log of the executor"),
            (log, f"{GARBAGE} elements", "elements that cannot be read", "the version"),
        ):
            state, messages = run(client, endpoint, function, command)
            assert state == "FAILED", command
            assert all(text in messages[-1] for text in told), messages[-1]
        with socket.socket() as nobody:
            nobody.bind(("localhost", 0))
            pool = f"localhost:{nobody.getsockname()[1]}"
            job_id = submit(endpoint, log, "EXTERNAL", pool)
            assert client.path(job_id)[-1] == "FAILED"
            assert f"The worker pool at {pool!r} does not answer" in client.messages(job_id)[-1]
        state, messages = run(client, endpoint, log, WORKER)
        assert state == "DONE", messages
        assert {"Mine: seen 1", "Mine: seen 2"} <= set(messages)
        assert any("run in beam:env:process:v1" in text for text in messages)
        health = health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest())
        assert health.status == health_pb2.HealthCheckResponse.SERVING


@pytest.mark.parametrize("silent", ["sleep 1000", f'exec {GARBAGE} silence "$@"'])
def test_a_job_whose_harness_says_nothing_is_cancelled_and_the_harness_ends(silent, tmp_path):
    file = tmp_path / "pid"
    command = f"bash -c {shlex.quote(f'echo $$ > {file}.new; mv {file}.new {file}; {silent}')} bash"
    with (
        server_process("--max-jobs=1") as (_, endpoint),
        grpc.insecure_channel(endpoint) as channel,
    ):
        client = JobClient(channel)
        job_id = submit(endpoint, log, "PROCESS", process(command))
        wait_until(file.exists, 120.0)
        time.sleep(3)  # it has connected, if it ever does, and was asked for work
        client.cancel(job_id)
        assert client.path(job_id)[-1] == "CANCELLED"
        wait_until(lambda: not os.path.exists(f"/proc/{int(file.read_text())}"))
        assert run(client, endpoint, log, WORKER)[0] == "DONE"
