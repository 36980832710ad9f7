"""Drains as a user has them: on a real Spark, in every way in which one can be asked for."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import apache_beam as beam
import grpc
import pytest
from apache_beam.metrics import MetricsFilter
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.portability.api import beam_job_api_pb2 as api
from apache_beam.portability.api import beam_job_api_pb2_grpc
from apache_beam.runners.runner import PipelineState
from drained_programs import lines, numbers, stream

from sparkdrain import SparkDrainRunner
from sparkdrain.drain import records, runs
from sparkdrain.errors import Cancelled, DrainLimitExceeded
from sparkdrain.jobs.engine import SparkEngine
from sparkdrain.jobs.server import JobServer
from sparkdrain.jobs.states import name
from sparkdrain.submission import submission
from tests.support import gated_drain
from tests.support.waiting import wait_until

pytestmark = pytest.mark.spark

SECONDS = 120
PROGRAM = Path(__file__).parent / "drained_programs.py"
SPARK = ("--spark_master_url=local[2]", "--progress=off", "--slots=2")


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "out"
    made.mkdir()
    return made


@pytest.fixture
def service():
    """A Job service of its own at a port, with the real engine."""
    server = JobServer(SparkEngine(), "localhost:0")
    server.start()
    yield server
    server.stop()


def start(folder, *flags: str):
    pipeline = beam.Pipeline(SparkDrainRunner(), options=PipelineOptions([*SPARK, *flags]))
    stream(pipeline, str(folder))
    return pipeline.run()


def program(*arguments: str) -> subprocess.Popen:
    path = os.pathsep.join([*sys.path, str(PROGRAM.parent)])
    return subprocess.Popen(
        [sys.executable, *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": path},
        stdout=subprocess.PIPE,
        text=True,
    )


def cli(*arguments: str) -> tuple[int, str]:
    process = program("-m", "sparkdrain.cli.main", "drain", *arguments)
    out, _ = process.communicate(timeout=SECONDS)
    return process.returncode, out


def until_it_reads(folder, running: subprocess.Popen | None = None) -> None:
    end = time.monotonic() + SECONDS
    while len(lines(folder, "admitted")) < 50:
        assert time.monotonic() < end
        assert running is None or running.poll() is None, running.communicate()
        time.sleep(0.05)


def check(folder) -> None:
    """Everything that was admitted came out, once; nothing that was in a window stayed there."""
    admitted, out = Counter(lines(folder, "admitted")), Counter(lines(folder, "out"))
    assert admitted == out
    assert max(admitted.values()) == 1
    assert lines(folder, "panes")[-1].endswith(" 1")


def is_gone(pid: int) -> bool:
    end = time.monotonic() + SECONDS
    while Path(f"/proc/{pid}").exists():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


def path_of(server: JobServer) -> list[str]:
    (job,) = server.jobs()
    return [name(event.state) for event in job.story.states.follow()]


def texts_of(server: JobServer) -> str:
    (job,) = server.jobs()
    return "\n".join(r.message_response.message_text for r in job.story.messages.follow())


WHOLE = ["STOPPED", "STARTING", "RUNNING", "DRAINING", "DRAINED"]


def test_by_the_program_itself(folder):
    result = start(folder)
    until_it_reads(folder)
    assert lines(folder, "out") == []
    assert result.drain() == PipelineState.DRAINING
    assert result.wait_until_finish() == PipelineState.DRAINED
    check(folder)
    job = submission.__globals__["local_server"]().jobs()[-1]
    told = [r.message_response.message_text for r in job.story.messages.follow()]
    assert "stages are drained; nothing left inside; after " in told[-2]
    hosts = {int(path.name.rpartition("-")[2]) for path in folder.glob("admitted-*")}
    assert hosts
    assert all(is_gone(pid) for pid in hosts), "slots have processes of their own, which end"


def test_by_the_command_that_first_asks_what_it_would_find(folder, service):
    result = start(folder, f"--job_endpoint={service.endpoint}", "--job_name=numbers")
    until_it_reads(folder)
    code, out = cli("numbers", "--job_endpoint", service.endpoint, "--dry-run")
    assert code == 0, out
    assert "A drain would find" in out
    assert "windows" in out
    assert result.state == PipelineState.RUNNING
    code, out = cli("numbers", "--job_endpoint", service.endpoint)
    assert code == 0, out
    assert out.endswith(f"Job {result.job_id} is DRAINED.\n")
    assert "Drain: " in out
    assert result.wait_until_finish() == PipelineState.DRAINED
    assert path_of(service) == WHOLE
    check(folder)


def test_by_the_command_through_the_store_of_a_job_in_another_process(folder, store, address):
    running = program(
        PROGRAM,
        folder,
        "--runner=sparkdrain.SparkDrainRunner",
        *SPARK,
        f"--metadata_store={address}",
    )
    job = running.stdout.readline().strip()
    until_it_reads(folder, running)
    code, out = cli(job, "--metadata_store", address)
    assert code == 0, out
    assert out.endswith(f"The run {job} is DRAINED.\n")
    assert running.communicate(timeout=SECONDS)[0] == "DRAINED\n"
    assert records.read(store, pytest.fail) == []
    assert runs.find(store, job).state == "DRAINED"
    check(folder)


def test_by_a_record_that_was_there_before_the_start_nothing_is_read(folder, store, address):
    code, out = cli("mine", "--metadata_store", address, "--ahead")
    assert code == 0, out
    result = start(folder, f"--metadata_store={address}", "--run_id=mine")
    assert result.wait_until_finish() == PipelineState.DRAINED
    assert list(folder.iterdir()) == []
    assert records.read(store, pytest.fail) == []


def test_by_a_raw_client_while_beams_own_portable_runner_waits(folder, service):
    running = program(
        PROGRAM,
        folder,
        "--runner=PortableRunner",
        "--environment_type=beam:env:embedded_python:v1",
        f"--job_endpoint={service.endpoint}",
        *(f"--{flag.lstrip('-')}" for flag in SPARK),
    )
    job = running.stdout.readline().strip()
    until_it_reads(folder, running)
    with grpc.insecure_channel(service.endpoint) as channel:
        stub = beam_job_api_pb2_grpc.JobServiceStub(channel)
        states = stub.GetStateStream(api.GetJobStateRequest(job_id=job))
        assert name(stub.Drain(api.DrainJobRequest(job_id=job)).state) == "DRAINING"
        assert [name(event.state) for event in states] == WHOLE
    # Beam 2.77 takes every end but DONE for a failure; the state is told all the same.
    told = running.communicate(timeout=SECONDS)[0]
    assert "failed in state DRAINED" in told
    assert told.endswith("\nDRAINED\n")
    check(folder)


def test_a_drain_that_is_given_up_by_cancelling_is_gone_on_with_by_who_resumes(
    tmp_path, store, address, service
):
    places = gated_drain.Places(tmp_path)
    places.make()
    flags = (
        f"--job_endpoint={service.endpoint}",
        f"--metadata_store={address}",
        "--job_name=gated",
        f"--checkpoint_dir={tmp_path}/checkpoints",
        # The one that says where sources were cut comes at once; no other is wanted.
        "--checkpoint_ms=3600000",
    )

    def start(*more: str):
        options = PipelineOptions([*SPARK, *flags, *more])
        pipeline = beam.Pipeline(SparkDrainRunner(), options=options)
        gated_drain.build(pipeline, str(tmp_path))
        return pipeline.run()

    places.gates.close("windows")
    result = start()
    wait_until(lambda: len(places.admitted()) > 50, SECONDS)
    assert result.drain() == PipelineState.DRAINING
    wait_until(lambda: places.gates.held("windows"), SECONDS)
    assert result.state == PipelineState.DRAINING
    found = result.metrics().query(MetricsFilter().with_name("windows_left"))["counters"]
    assert sum(counter.committed for counter in found) > 0
    cut = Counter(places.admitted())

    result.cancel()
    with pytest.raises(Cancelled):
        result.wait_until_finish()
    assert result.state == PipelineState.CANCELLED
    assert path_of(service) == [*WHOLE[:4], "CANCELLING", "CANCELLED"]
    # What was inside is not out, and the request stays for who takes the run up again.
    assert places.out() == []
    (run,) = runs.known(store)
    assert run.state == "CANCELLED"
    assert [each.run_id for each in records.read(store, pytest.fail)] == [run.run_id]

    places.gates.open("windows")
    assert start("--resume").wait_until_finish() == PipelineState.DRAINED
    assert [each.state for each in runs.known(store)] == ["DRAINED"]
    assert records.read(store, pytest.fail) == []
    places.check_outcome(cut)


def test_a_dofn_that_hangs_in_a_drain_fails_the_job_at_its_limit_and_is_named(folder):
    def hang(element):
        time.sleep(3600)

    pipeline = beam.Pipeline(
        SparkDrainRunner(),
        options=PipelineOptions([*SPARK, "--drain_watermark_limit_ms=300"]),
    )
    _ = numbers(pipeline, str(folder)) | "Hang" >> beam.Map(hang)
    result = pipeline.run()
    until_it_reads(folder)
    result.drain()
    with pytest.raises(DrainLimitExceeded, match=r"--drain_watermark_limit_ms.*'Hang'"):
        result.wait_until_finish()
    assert result.state == PipelineState.FAILED


@pytest.mark.slow
def test_a_request_is_heard_by_who_takes_the_run_up_again_after_its_driver_was_killed(
    folder, tmp_path, store, address
):
    flags = (
        "--runner=sparkdrain.SparkDrainRunner",
        *SPARK,
        "--job_name=numbers",
        f"--metadata_store={address}",
        f"--checkpoint_dir={tmp_path}/checkpoints",
        "--checkpoint_ms=300",
    )
    running = program(PROGRAM, folder, *flags)
    until_it_reads(folder, running)
    end = time.monotonic() + SECONDS
    while not list(tmp_path.glob("checkpoints/numbers/manifests/*/*.manifest")):
        assert time.monotonic() < end
        time.sleep(0.05)
    running.kill()
    running.communicate()
    code, out = cli("numbers", "--metadata_store", address, "--no-wait")
    assert code == 0, out
    admitted = lines(folder, "admitted")

    out, _ = program(PROGRAM, folder, *flags, "--resume").communicate(timeout=2 * SECONDS)
    assert out.endswith("DRAINED\n")
    assert [run.state for run in runs.known(store)] == ["DRAINED"]
    assert records.read(store, pytest.fail) == []
    # Nothing was read after the checkpoint; what was read before it came out, once, without gaps.
    assert lines(folder, "admitted") == admitted
    numbers_out = [line.split() for line in lines(folder, "out")]
    for key in {key for key, _ in numbers_out}:
        found = sorted(int(number) for of, number in numbers_out if of == key)
        assert found == list(range(len(found)))
    assert 0 < len(numbers_out) <= len(admitted)


def test_a_batch_job_reads_everything_and_is_done(folder):
    pipeline = beam.Pipeline(SparkDrainRunner(), options=PipelineOptions([*SPARK]))
    _ = (
        pipeline
        | beam.Create(range(50), reshuffle=False)
        | beam.Map(lambda number: (time.sleep(0.02), ("k", number))[1])
        | beam.GroupByKey()
        | beam.MapTuple(lambda key, numbers: (folder / "all").write_text(str(len(list(numbers)))))
    )
    result = pipeline.run()
    assert result.drain() in (PipelineState.DRAINING, PipelineState.DONE)
    assert result.wait_until_finish() == PipelineState.DONE
    assert (folder / "all").read_text() == "50"
