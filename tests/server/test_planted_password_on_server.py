"""Slow: a password in a job's settings is in nothing that a Job service on Spark says or keeps."""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING

import apache_beam as beam
import grpc
import psutil
import pytest
from apache_beam.coders import VarIntCoder
from apache_beam.metrics import Metrics
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.portability.api import beam_job_api_pb2 as api
from apache_beam.transforms.periodicsequence import PeriodicImpulse
from apache_beam.transforms.userstate import ReadModifyWriteStateSpec

from sparkdrain.io.kafka import ReadFromKafka
from tests.support.job_client import JobClient
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.slow, pytest.mark.spark]

PLANTED = "HUNTER2-planted"
SECONDS = 400
COMMAND = [sys.executable, "-m", "sparkdrain.cli.main"]
ENVIRON = {
    **os.environ,
    "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
    "COLUMNS": "300",
}


class Tells(beam.DoFn):
    """Knows the password, logs it, and fails with it."""

    COUNT = ReadModifyWriteStateSpec("count", VarIntCoder())

    def __init__(self, password: str) -> None:
        self._password = password

    def process(self, element, count=beam.DoFn.StateParam(COUNT)):
        count.write((count.read() or 0) + 1)
        logging.getLogger("mine").warning("I am at %s with %s", element, self._password)
        raise ValueError("cannot log in with " + self._password)


def failing(pipeline):
    """A DoFn that knows the password as an argument, as a client of a database does."""
    pipeline | beam.Create([("a", 1), ("b", 2)]) | beam.ParDo(Tells(PLANTED))


def refused(pipeline):
    """A connector that has the password among its settings."""
    settings = {"security.protocol": "SSL", "ssl.key.password": PLANTED}
    files = {"ssl.ca.location": "/none", "ssl.certificate.location": "/none"}
    read = ReadFromKafka("127.0.0.1:1", "t", consumer_config={**settings, **files}, client=CLIENT)
    pipeline | read


class Hangs(beam.DoFn):
    """Counts under a name that has the password, until it is to hang."""

    COUNT = ReadModifyWriteStateSpec("count", VarIntCoder())

    def __init__(self, password: str, file: str) -> None:
        self._password, self._file = password, file

    def process(self, element, count=beam.DoFn.StateParam(COUNT)):
        count.write((count.read() or 0) + 1)
        Metrics.counter("mine", f"logins with {self._password}").inc()
        Metrics.string_set("mine", "passwords").add(self._password)
        while os.path.exists(self._file):
            time.sleep(0.1)


def hanging(file: Path):
    """A stream that is to hang as long as there is such a file."""

    def build(pipeline):
        ticks = pipeline | PeriodicImpulse(fire_interval=0.1) | beam.WithKeys("k")
        _ = ticks | "Count" >> beam.ParDo(Hangs(PLANTED, str(file)))

    return build


CLIENT = "kafka-python"
PROCESS = (
    "--environment_type=PROCESS",
    f"--environment_config={json.dumps({'command': ' '.join([*COMMAND, 'worker'])})}",
)
JOBS = {
    "in-workers": (failing, ("--streaming",), "ValueError: cannot log in with ***"),
    "in-batches": (failing, (), "ValueError: cannot log in with ***"),
    "in-processes": (failing, PROCESS, "ValueError: cannot log in with ***"),
    "in-processes-of-a-stream": (failing, ("--streaming", *PROCESS), "cannot log in with ***"),
    "refused": (refused, ("--streaming",), "ssl.ca.location"),
}


class Server:
    """A server process; all that it prints is kept."""

    def __init__(self, folder: Path) -> None:
        self._printed = (folder / "printed").open("wb")
        self.process = subprocess.Popen(
            [*COMMAND, "server", "--job-port=0", f"--server-dir={folder / 'server'}"],
            stdout=subprocess.PIPE,
            stderr=self._printed,
            env=ENVIRON,
            text=True,
        )
        self.said = [self.process.stdout.readline()]
        self.endpoint = self.said[0].split("listens at ")[1].split(". ")[0]
        self._reader = threading.Thread(target=self.said.extend, args=[self.process.stdout])
        self._reader.start()

    def command_lines(self) -> str:
        lines = []
        for process in psutil.Process(self.process.pid).children(recursive=True):
            with suppress(psutil.Error):  # it ends just now
                lines.append(" ".join(process.cmdline()))
        return "\n".join(lines)

    def end(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(120) == 0
        self._reader.join()
        self._printed.close()


def test_not_in_what_a_server_says_nor_in_what_its_jobs_keep(tmp_path):
    kept = tmp_path / "kept"
    told: dict[str, str] = {}
    server = Server(tmp_path)
    try:
        with grpc.insecure_channel(server.endpoint) as channel:
            client = JobClient(channel)
            for name, (build, flags, _) in JOBS.items():
                job_id = _submitted(server.endpoint, build, name, kept, *flags)
                path = client.path(job_id)
                told[name] = "\n".join([*client.messages(job_id), *path])
                assert path[-1] == "FAILED", told[name]
                told[f"command lines of {name}"] = server.command_lines()
            told["the list"] = str(client.stub.GetJobs(api.GetJobsRequest()))
        server.end()
    finally:
        server.process.kill()
        server.process.wait()
    told["standard output"] = "".join(server.said)
    told["standard error"] = (tmp_path / "printed").read_text()
    told["sparkdrain jobs"] = _printed("jobs", f"--checkpoint_dir={kept}")
    assert "in-workers" in told["sparkdrain jobs"]
    assert "java" in told["command lines of in-workers"]
    for name, (_, _, expected) in JOBS.items():
        assert expected in told[name]
    assert "with ***" in told["in-processes"], "what its harness logs is among the job's messages"
    _check(told, kept)
    # It has what a job needs to be started again, for its user alone.
    assert (tmp_path / "server").stat().st_mode & 0o077 == 0


def _check(told: dict[str, str], kept: Path) -> None:
    """The password is in no text, and in no file that jobs keep."""
    found = [
        f"{where}: {line}"
        for where, text in told.items()
        for line in text.splitlines()
        if PLANTED in line
    ]
    assert found == []
    files = [path for path in kept.rglob("*") if path.is_file()]
    assert any(path.suffix == ".record" for path in files)
    assert [path for path in files if PLANTED.encode() in path.read_bytes()] == []


def test_not_in_metrics_nor_in_what_is_told_of_a_stream_that_hangs_and_is_drained(tmp_path):
    kept = tmp_path / "kept"
    server = Server(tmp_path)
    try:
        with grpc.insecure_channel(server.endpoint) as channel:
            told = _of_a_stream_that_hangs(
                server.endpoint, JobClient(channel), kept, tmp_path / "hang"
            )
        server.end()
    finally:
        server.process.kill()
        server.process.wait()
    told["standard output"] = "".join(server.said)
    told["standard error"] = (tmp_path / "printed").read_text()
    for question in ("list", "inspect", "verify"):
        told[f"sparkdrain checkpoints {question}"] = _printed("checkpoints", question, str(kept))
    assert "hangs" in told["sparkdrain checkpoints list"]
    assert "Count" in told["sparkdrain checkpoints inspect"]
    assert list(kept.glob("*/manifests/**/*.manifest"))
    _check(told, kept)


def _of_a_stream_that_hangs(
    endpoint: str, client: JobClient, kept: Path, file: Path
) -> dict[str, str]:
    """Metrics, a dry run, what is told of code that hangs, and a drain."""
    told = {}
    flags = ("--streaming", "--hang_warning_ms=2000", "--checkpoint_ms=500")
    job_id = _submitted(endpoint, hanging(file), "hangs", kept, *flags)
    asked = api.GetJobMetricsRequest(job_id=job_id)

    def metrics() -> str:
        return client.stub.GetJobMetrics(asked).metrics.SerializeToString().decode(errors="replace")

    wait_until(lambda: "logins with ***" in metrics(), SECONDS, 0.5)
    told["metrics"] = metrics()
    place = f"--job_endpoint={endpoint}"
    told["a dry run"] = _printed("drain", "hangs", place, "--dry-run")
    assert "A drain would find" in told["a dry run"]
    file.touch()
    stream = client.stub.GetMessageStream(api.JobMessagesRequest(job_id=job_id), timeout=SECONDS)
    texts = (each.message_response.message_text for each in stream)
    told["a hang"] = next(text for text in texts if "runs step 'Count'" in text)
    stream.cancel()
    assert "in process" in told["a hang"], "the stack"
    file.unlink()
    told["a drain"] = _printed("drain", "hangs", place)
    assert "stages are drained" in told["a drain"]
    told["a stream"] = "\n".join([*client.messages(job_id), *client.path(job_id)])
    assert told["a stream"].endswith("DRAINED")
    return told


def _printed(*arguments: str) -> str:
    done = subprocess.run(
        [*COMMAND, *arguments],
        env=ENVIRON,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=True,
    )
    return done.stdout + done.stderr


def _submitted(endpoint: str, build, name: str, kept: Path, *flags: str) -> str:
    options = [
        *("--runner=SparkDrainRunner", f"--job_endpoint={endpoint}", "--progress=off"),
        *(f"--job_name={name}", f"--client_secret={PLANTED}", "--spark_master_url=local[2]"),
        f"--spark_conf=spark.my.password={PLANTED}",
        *flags,
    ]
    if "--streaming" in flags:
        options.append(f"--checkpoint_dir={kept}")
    pipeline = beam.Pipeline(options=PipelineOptions(options))
    build(pipeline)
    return pipeline.run().job_id


class Secretive(PipelineOptions):
    """An option of a program, whose name says that it is secret."""

    @classmethod
    def _add_argparse_args(cls, parser):
        parser.add_argument("--client_secret")
