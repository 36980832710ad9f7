"""The job service of a process, and what becomes of its jobs when the program ends."""

from __future__ import annotations

import os
import textwrap

import pytest

# A program with an engine that says what it does; GO lets its job end.
PROGRAM = """
import threading, sys
import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
from fake_engine import FakeEngine, until_cancelled
import sparkdrain.jobs.local as local

GO = threading.Event()

def behave(call):
    print("job begins", flush=True)
    call.cancel.on_cancel(lambda: print("job is told to stop", flush=True))
    call.cancel.on_cancel(GO.set)
    assert GO.wait(60)
    print("job ends", flush=True)

local.SparkEngine = lambda: FakeEngine(behave)

def start(*flags):
    options = PipelineOptions(["--runner=sparkdrain.SparkDrainRunner", *flags])
    pipeline = beam.Pipeline(options=options)
    _ = pipeline | beam.Create([1])
    return pipeline.run()
"""


@pytest.fixture
def program(python):
    def run(code: str):
        return python("-c", PROGRAM + textwrap.dedent(code))

    return run


def test_a_job_that_nobody_waited_for_is_seen_through_when_the_program_ends(program):
    ended = program(
        """
        start()
        threading.Timer(0.2, GO.set).start()
        print("program ends")
        """
    )
    assert ended.returncode == 0, ended.stderr
    lines = ended.stdout.split("\n")
    assert lines[-2] == "job ends"
    assert "job is told to stop" not in lines
    assert "The program has ended; waiting for job" in ended.stderr


def test_a_program_that_crashes_cancels_its_jobs_and_ends(program):
    ended = program("start()\n1 / 0")
    assert ended.returncode == 1
    assert "job is told to stop" in ended.stdout
    assert ended.stderr.rstrip().endswith("ZeroDivisionError: division by zero")


@pytest.mark.parametrize(
    ("signal", "code", "says"),
    [("SIGINT", -2, "KeyboardInterrupt"), ("SIGTERM", 143, "Cancelling job")],
)
def test_a_signal_cancels_the_job_and_the_program_ends_with_its_code(program, signal, code, says):
    ended = program(
        f"""
        import os, signal
        result = start()
        threading.Timer(0.2, os.kill, (os.getpid(), signal.{signal})).start()
        result.wait_until_finish()
        """
    )
    assert ended.returncode == code
    assert "job is told to stop" in ended.stdout
    assert says in ended.stderr


def test_the_service_is_one_per_process_and_leaves_nothing_behind(program):
    ended = program(
        """
        import os
        GO.set()
        start().wait_until_finish()
        start().wait_until_finish()
        print(local.local_server() is local.local_server())
        print(local.local_server().endpoint.removeprefix("unix:"))
        """
    )
    assert ended.returncode == 0, ended.stderr
    same, socket = ended.stdout.split("\n")[-3:-1]
    assert same == "True"
    assert socket.endswith("/jobs")
    assert not os.path.exists(socket)
    assert "gRPC" not in ended.stderr


# gRPC gives no promise to a child of a process with threads: seldom, under load, it hangs.
@pytest.mark.slow
def test_a_forked_child_gets_a_service_of_its_own(program):
    ended = program(
        """
        import os
        GO.set()
        start().wait_until_finish()
        first = local.local_server().endpoint
        child = os.fork()
        if not child:
            same = local.local_server().endpoint == first
            local.local_server().stop()
            os._exit(17 if same else 0)
        print("child:", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        """
    )
    assert "child: 0" in ended.stdout, ended.stderr
