"""Harnesses that are processes: how they start, die, and never outlive the slot's process."""

from __future__ import annotations

import atexit
import inspect
import json
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import apache_beam as beam
import grpc
import pytest
from apache_beam.portability.api import (
    beam_fn_api_pb2,
    beam_fn_api_pb2_grpc,
    beam_provision_api_pb2,
)
from apache_beam.runners import pipeline_context
from apache_beam.transforms import environments

from sparkdrain import redaction
from sparkdrain.fnapi import guard, process
from sparkdrain.fnapi.errors import HarnessFailed, HarnessLost, HarnessNotStarted
from sparkdrain.fnapi.harness import Outside
from sparkdrain.fnapi.harnesses import Harnesses, HarnessJob
from sparkdrain.fnapi.process import Command, HarnessProcess, HarnessProgram, Life
from sparkdrain.fnapi.services import Admitted, SdkServices
from sparkdrain.fnapi.worker import TORN_DOWN, SdkWorker
from sparkdrain.hosts.orphans import JOB_VARIABLE
from tests.support.in_memory import run_in_memory
from tests.support.waiting import wait_until

WORKER = f"{sys.executable} -m sparkdrain.cli.main worker"
GARBAGE = f"{sys.executable} -m tests.support.garbage_harness"


@pytest.fixture
def run():
    harnesses = Harnesses()

    def run(build, command=WORKER, options=None, log=lambda *_: None, samples=None):
        pipeline = beam.Pipeline()
        build(pipeline)
        environment = environments.ProcessEnvironment(
            command,
            env={"MARK": "set", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            capabilities=environments.python_sdk_capabilities(),
        )
        ends = []
        job = HarnessJob("job", options or {}, when_over=ends.append, log=log, samples=samples)
        outside = Outside(job, harnesses)
        try:
            return run_in_memory(pipeline, 1, environment=environment, outside=outside)
        finally:
            for end in ends:
                end()

    yield run
    harnesses.close()


def _is_gone(pid, seconds=10.0):
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.05)
    return False


class _Notes(beam.DoFn):
    def __init__(self, file):
        self._file = file

    def _note(self, what):
        with self._file.open("a") as file:
            print(what, os.getpid(), os.environ["MARK"], file=file)

    def process(self, element):
        self._note(element)
        yield element % 2, element

    def teardown(self):
        self._note("teardown")


def test_a_process_runs_all_levels_and_tears_its_dofns_down(run, tmp_path):
    notes = tmp_path / "notes"

    def build(pipeline):
        sums = pipeline | beam.Create([1, 2, 3]) | beam.ParDo(_Notes(notes))
        _ = (
            sums
            | beam.CombinePerKey(sum)
            | beam.MapTuple(lambda _, n: n)
            | "2" >> beam.ParDo(_Notes(notes))
        )

    run(build)
    lines = [line.split() for line in notes.read_text().splitlines()]
    assert sorted(what for what, _, _ in lines) == ["1", "2", "2", "3", "4", "teardown", "teardown"]
    assert {mark for _, _, mark in lines} == {"set"}
    (pid,) = {int(pid) for _, pid, _ in lines}
    assert pid != os.getpid()
    assert _is_gone(pid)


def test_a_lost_connection_for_elements_is_an_error_of_the_bundle(run, monkeypatch):
    """Python's harness says so, and does not wait for elements that never come."""

    def lose(_services, _elements, context):
        context.abort(grpc.StatusCode.UNAVAILABLE, "there is none")

    monkeypatch.setattr(SdkServices, "Data", lose)
    with pytest.raises(RuntimeError, match="Channel closed prematurely"):
        run(lambda pipeline: pipeline | beam.Create([1]) | beam.Map(str))


def test_what_user_code_logs_is_told_with_the_name_of_its_step(run):
    def log(number: int) -> None:
        logging.getLogger("mine").info("number %s", number)

    told = []
    run(
        lambda p: p | beam.Create([1, 2]) | "Shout" >> beam.Map(log),
        log=lambda *record: told.append(record),
    )
    assert (logging.INFO, "Shout: number 1") in told
    assert (logging.INFO, "Shout: number 2") in told
    assert not [text for level, text in told if level < logging.WARNING and "Shout" not in text]


class _NoSamples:
    def sample(self, of, text):
        raise AssertionError(of, text)

    def flush(self):
        pass


def test_no_secret_of_the_job_is_in_what_a_harness_logs(run, caplog, monkeypatch):
    """A slot's process knows no options, but for those of its harnesses.

    The job wants to see the element that user code fails on, too.
    """
    monkeypatch.setattr(redaction._Known, "values", ())
    secret = "HUNTER2-planted"

    def fail(_):
        logging.getLogger("mine").warning("logged %s", secret)
        text = f"cannot log in with {secret}"
        raise ValueError(text)

    with caplog.at_level(logging.INFO), pytest.raises(HarnessFailed, match="cannot log in") as got:
        run(
            lambda p: p | beam.Create([1]) | beam.Map(fail),
            options={
                "client_secret": secret,
                "experiments": ["enable_always_on_exception_sampling"],
            },
            samples=_NoSamples(),
        )
    assert "It was at an element of Create/Map(decode): 1" in got.value.__notes__
    said = [each.getMessage() for each in caplog.records if each.name.startswith("sparkdrain")]
    assert any("logged ***" in each for each in said)
    assert any("cannot log in with ***" in each for each in said)
    assert not any(secret in each for each in said)


def test_a_command_that_never_connects_is_ended_with_what_to_look_at(run, monkeypatch, tmp_path):
    monkeypatch.setattr("sparkdrain.fnapi.harnesses._START_SECONDS", 1.0)
    pid = tmp_path / "pid"
    with pytest.raises(HarnessNotStarted, match=r"has not connected to unix:.* within 1 s\. Look"):
        run(
            lambda p: p | beam.Create([1]) | beam.Map(print),
            f"bash -c 'echo $$ > {pid}; sleep 1000'",
        )
    assert _is_gone(int(pid.read_text()))


def test_a_command_that_ends_is_told_with_its_last_words(run):
    command = f"""{sys.executable} -c 'import sys; sys.exit("no such library")'"""
    with pytest.raises(HarnessNotStarted, match=r"(?s)status 1.*no such library"):
        run(lambda p: p | beam.Create([1]) | beam.Map(print), command)


def test_a_command_that_is_not_there_is_told(run):
    with pytest.raises(HarnessNotStarted, match="there-is-none"):
        run(lambda p: p | beam.Create([1]) | beam.Map(print), "there-is-none --flag")


def test_a_process_that_dies_amid_a_bundle_is_told_and_the_next_job_has_another(run, tmp_path):
    def die(_):
        os.kill(os.getpid(), signal.SIGKILL)

    with pytest.raises(HarnessLost):
        run(lambda p: p | beam.Create([1]) | beam.Map(die))
    notes = tmp_path / "notes"
    run(lambda p: p | beam.Create([1]) | beam.ParDo(_Notes(notes)))
    assert notes.read_text().startswith("1 ")


@pytest.mark.parametrize(
    ("how", "told"),
    [
        ("messages", r"(?s)no message of the Fn API.*this harness does messages"),
        ("elements", "elements that cannot be read.*the version, that has made the pipeline"),
        ("error", "something is wrong in here"),
    ],
)
def test_a_harness_that_does_not_keep_to_the_fn_api_is_told_with_what_to_look_at(run, how, told):
    with pytest.raises(Exception, match=told):
        run(lambda p: p | beam.Create([1, 2]) | beam.Map(print), f"{GARBAGE} {how}")


def test_java_says_what_went_wrong_and_not_where_line_by_line(tmp_path):
    frames = "".join(f"\tat some.Class.method(Class.java:{n})\n" for n in range(200))
    (tmp_path / "output").write_text(f"one\nError: bad\n{frames}Caused by: worse\n{frames}")
    words = HarnessProcess(
        HarnessProgram("java", lambda *_: Command([])), "", tmp_path
    ).last_words()
    assert "Error: bad" in words
    assert "Caused by: worse" in words
    assert words.count("\tat ") == 6


def test_a_guard_is_no_daemon_of_user_code(tmp_path, monkeypatch):
    """Such a daemon is killed when its job ends. A guard has to end its harness then."""
    monkeypatch.setenv(JOB_VARIABLE, "a job")
    tells = ["sh", "-c", f"echo ${JOB_VARIABLE}."]
    life = HarnessProcess(HarnessProgram("tells", lambda *_: Command(tells)), "", tmp_path)
    life.start("worker")
    wait_until(life.how_it_ended)
    assert (tmp_path / "output").read_text() == ".\n"


def test_a_guard_is_not_killed_before_its_last_command_has_run(tmp_path, monkeypatch):
    monkeypatch.setattr(process, "STOP_SECONDS", 0.1)
    removed = tmp_path / "removed"
    command = Command(["sleep", "100"], at_the_end=["bash", "-c", f"sleep 1; touch {removed}"])
    program = HarnessProgram("sleeps", lambda *_: command, ends_itself=False)
    life = HarnessProcess(program, "", tmp_path)
    life.start("worker")
    life.stop()
    assert removed.exists()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends who has lost a parent")
def test_of_a_guard_that_is_killed_nothing_is_left(tmp_path):
    pid, removed = tmp_path / "pid", tmp_path / "removed"
    sleeps = ["bash", "-c", f"echo $$ > {pid}.new; mv {pid}.new {pid}; exec sleep 100"]
    command = Command(sleeps, at_the_end=["touch", str(removed)])
    life = HarnessProcess(HarnessProgram("sleeps", lambda *_: command), "", tmp_path)
    life.start("worker")
    wait_until(pid.exists)
    life._process.kill()
    wait_until(life.how_it_ended)
    assert _is_gone(int(pid.read_text()))
    assert not removed.exists()
    life.stop()
    assert removed.exists(), "what stays of a container is removed by who has noticed"


def test_a_guard_sleeps_until_its_command_has_ended():
    slept = "import select, sys\nwaits = []\nbefore = select.select\n"
    slept += "def counted(*of):\n    waits.append(of)\n    return before(*of)\n"
    slept += "select.select = counted\n"
    source = inspect.getsource(guard).replace("    sys.exit(main())", "    main()")
    program = slept + source + "\nprint(len(waits))"
    command = [sys.executable, "-I", "-S", "-c", program, "[]", "", "sleep", "1.5"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout.read() == b"1\n"


def test_a_guard_whose_caller_is_gone_ends_the_command_and_its_children(tmp_path):
    pids = tmp_path / "pids"
    command = ["bash", "-c", f"trap '' TERM; sleep 100 & echo $$ $! > {pids}; wait"]
    last = ["bash", "-c", f"echo told >> {pids}"]
    guarded = subprocess.Popen(
        [
            sys.executable,
            "-I",
            "-S",
            "-c",
            inspect.getsource(guard),
            json.dumps(last),
            "",
            *command,
        ],
        stdin=subprocess.PIPE,
    )
    while not (pids.exists() and pids.read_text().strip()):
        time.sleep(0.05)
    guarded.stdin.close()
    guarded.wait(20)
    *gone, told = pids.read_text().split()
    assert all(_is_gone(int(pid)) for pid in gone)
    assert told == "told"


def test_harnesses_end_when_their_job_is_over():
    harnesses, ends = Harnesses(), []
    environment = environments.ProcessEnvironment(
        WORKER, env={"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    ).to_runner_api(pipeline_context.PipelineContext())
    try:
        worker = harnesses.lend(HarnessJob("job", {}, when_over=ends.append), "env", environment)
        harnesses.give_back(worker)
        assert not worker.is_lost
        (end,) = ends
        end()
        assert worker.is_lost
    finally:
        harnesses.close()


@pytest.mark.parametrize("ahead", [False, True])
def test_a_process_that_got_no_work_is_not_started_or_ended_at_once(tmp_path, ahead):
    pid = tmp_path / "pid"
    environment = environments.ProcessEnvironment(f"bash -c 'echo $$ > {pid}; sleep 1000'")
    proto = environment.to_runner_api(pipeline_context.PipelineContext())
    harnesses = Harnesses()
    try:
        worker = harnesses.lend(HarnessJob("job", {}), "env", proto, ahead=ahead)
        while ahead and not (pid.exists() and pid.read_text()):
            time.sleep(0.05)
        began = time.monotonic()
        harnesses.give_back(worker, keep=False)
        harnesses.close()
        assert time.monotonic() - began < process.STOP_SECONDS
        assert pid.exists() == ahead
        assert not ahead or _is_gone(int(pid.read_text()))
    finally:
        harnesses.close()


def test_a_harness_that_is_needed_no_more_ends_while_its_job_goes_on_and_before_that_ends(tmp_path):
    pid, let_go, ends, harnesses = tmp_path / "pid", tmp_path / "let-go", [], Harnesses()
    ending = f"while [ ! -e {let_go} ]; do sleep 0.05; done; exit"
    command = f"bash -c 'trap \"{ending}\" TERM; echo $$ > {pid}; sleep 1000 & wait'"
    proto = environments.ProcessEnvironment(command).to_runner_api(
        pipeline_context.PipelineContext()
    )
    try:
        worker = harnesses.lend(HarnessJob("job", {}, when_over=ends.append), "env", proto)
        wait_until(lambda: pid.exists() and pid.read_text().strip())
        harnesses.give_back(worker, keep=False)
        os.kill(int(pid.read_text()), 0)
        (end,) = ends
        waits = threading.Thread(target=end)
        waits.start()
        waits.join(0.3)
        assert waits.is_alive()
        let_go.touch()
        waits.join()
        assert _is_gone(int(pid.read_text()))
    finally:
        harnesses.close()


def test_what_user_code_has_left_for_the_end_of_its_process_is_done(run, tmp_path):
    def leave(file):
        atexit.register(Path(file).touch)

    run(lambda pipeline: pipeline | beam.Create([str(tmp_path / "done")]) | beam.Map(leave))
    assert (tmp_path / "done").exists()


def test_a_descriptor_is_found_by_its_id_alone():
    """The TypeScript SDK does not say which harness asks."""
    services, worker = SdkServices(), SdkWorker("1", Life())
    worker.register(beam_fn_api_pb2.ProcessBundleDescriptor(id="a stage"))
    services.admit(Admitted(worker, beam_provision_api_pb2.ProvisionInfo(), {}))
    request = beam_fn_api_pb2.GetProcessBundleDescriptorRequest
    try:
        with grpc.insecure_channel(services.socket) as channel:
            stub = beam_fn_api_pb2_grpc.BeamFnControlStub(channel)
            wanted = request(process_bundle_descriptor_id="a stage")
            assert stub.GetProcessBundleDescriptor(wanted).id == "a stage"
            with pytest.raises(grpc.RpcError) as caught:
                stub.GetProcessBundleDescriptor(request(process_bundle_descriptor_id="a guess"))
            assert caught.value.code() is grpc.StatusCode.NOT_FOUND
    finally:
        services.stop()


def test_only_what_a_harness_says_to_the_user_is_told():
    services, worker, told = SdkServices(), SdkWorker("1", Life()), []
    info = beam_provision_api_pb2.ProvisionInfo()
    services.admit(Admitted(worker, info, {}, lambda *record: told.append(record)))
    entries = beam_fn_api_pb2.LogEntry.List()
    severe = beam_fn_api_pb2.LogEntry.Severity.ERROR
    entries.log_entries.add(log_location="mine", message="the last", severity=severe)
    # Of the harness before it, in a program of the user's.
    channels = "vendor.io.grpc.internal.ManagedChannelOrphanWrapper"
    entries.log_entries.add(log_location=channels, message="garbage", severity=severe)
    client = "/go/pkg/beam/runners/universal/runnerlib/execute.go:109"
    entries.log_entries.add(log_location=client, message="(id=4)the last", severity=severe)
    entries.log_entries.add(log_location=TORN_DOWN, message="torn down", severity=severe)
    try:
        with grpc.insecure_channel(services.socket) as channel:
            stub = beam_fn_api_pb2_grpc.BeamFnLoggingStub(channel)
            list(stub.Logging(iter([entries]), metadata=(("worker_id", "1"),)))
        assert worker.life.torn_down.is_set()
        assert told == [(logging.ERROR, "the last")]
    finally:
        services.stop()


def test_who_does_not_know_a_worker_id_is_refused():
    services = SdkServices()
    try:
        with grpc.insecure_channel(services.socket) as channel:
            stub = beam_fn_api_pb2_grpc.BeamFnControlStub(channel)
            for metadata in ((), (("worker_id", "1"),)):
                with pytest.raises(grpc.RpcError) as caught:
                    next(stub.Control(iter(()), metadata=metadata))
                assert caught.value.code() is grpc.StatusCode.PERMISSION_DENIED
    finally:
        services.stop()
