"""What a program sees that drains its own job, or whose job is drained from elsewhere."""

from __future__ import annotations

import os
import signal
import threading

import apache_beam as beam
import grpc
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.portability.api import beam_job_api_pb2 as api
from apache_beam.portability.api import beam_job_api_pb2_grpc
from apache_beam.runners.runner import PipelineState
from fake_engine import FakeEngine, until_cancelled, until_drained

from sparkdrain.jobs.states import name
from sparkdrain.submission import submission


@pytest.fixture
def running(in_process):
    """An engine whose job goes on until somebody drains or cancels it."""
    started = threading.Event()

    def behave(call):
        started.set()
        return until_drained(call)

    engine = in_process(FakeEngine(behave))
    engine.started = started
    return engine


def start(*flags: str, runner: str = "SparkDrainRunner"):
    pipeline = beam.Pipeline(options=PipelineOptions([f"--runner={runner}", *flags]))
    _ = pipeline | beam.Create([1])
    return pipeline.run()


def test_a_program_drains_its_job_and_waiting_for_it_ends_well(running):
    result = start()
    assert running.started.wait(30)
    assert result.drain() in (PipelineState.DRAINING, PipelineState.DRAINED)
    assert result.wait_until_finish() == PipelineState.DRAINED
    assert result.state == PipelineState.DRAINED
    assert result.drain() == PipelineState.DRAINED


def test_draining_a_job_that_is_done_answers_so(in_process):
    in_process(FakeEngine())
    result = start()
    result.wait_until_finish()
    assert result.drain() == PipelineState.DONE


def test_a_job_that_is_cancelled_while_it_drains_raises_as_any_cancelled_job(in_process):
    def behave(call):
        until_drained(call)
        until_cancelled(call)

    in_process(FakeEngine(behave))
    result = start()
    assert result.drain() == PipelineState.DRAINING
    result.cancel()
    with pytest.raises(RuntimeError, match="ended as CANCELLED"):
        result.wait_until_finish()


def test_a_job_that_cannot_be_drained_says_why_and_goes_on(in_process):
    in_process(FakeEngine(until_cancelled))
    result = start("--drain=off")
    with pytest.raises(RuntimeError, match=r"started with --drain=off") as caught:
        result.drain()
    assert not isinstance(caught.value, grpc.RpcError)
    result.cancel()
    with pytest.raises(RuntimeError):
        result.wait_until_finish()


def test_the_end_of_a_with_block_waits_until_the_job_is_drained(running):
    def drain() -> None:
        assert running.started.wait(30)
        (job,) = server.jobs()
        job.drain()

    server = submission.__globals__["local_server"]()
    thread = threading.Thread(target=drain)
    thread.start()
    with beam.Pipeline(options=PipelineOptions(["--runner=SparkDrainRunner"])) as pipeline:
        _ = pipeline | beam.Create([1])
    thread.join(30)
    assert pipeline.result.state == PipelineState.DRAINED


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGUSR1])
def test_a_signal_drains_the_job_if_that_is_asked_for_and_the_next_one_is_as_before(
    running, number
):
    name_of = number.name.removeprefix("SIG")
    result = start(f"--drain_on_signal={name_of}")
    assert running.started.wait(30)
    before, wait, during = signal.getsignal(number), result._over.wait, []

    def wait_and_hear(seconds=None):
        os.kill(os.getpid(), number)
        ended = wait(seconds)
        during.append(signal.getsignal(number))
        return ended

    result._over.wait = wait_and_hear
    assert result.wait_until_finish() == PipelineState.DRAINED
    assert signal.getsignal(number) is before
    if number is not signal.SIGTERM:  # Which ends the wait, as it does without the option.
        assert during == [before]


def test_a_signal_that_was_not_named_drains_nothing(running):
    """A drain never happens by itself: the program is ended, and its job cancelled."""
    result = start()
    assert running.started.wait(30)
    wait = result._over.wait

    def wait_and_hear(seconds=None):
        result._over.wait = wait
        os.kill(os.getpid(), signal.SIGTERM)
        return wait(30)

    result._over.wait = wait_and_hear
    with pytest.raises(SystemExit):
        result.wait_until_finish()
    assert running.calls[0].drain.requested() is None
    assert result.state == PipelineState.CANCELLED


def test_beams_own_portable_runner_sees_draining_then_drained(serve):
    may_end = threading.Event()

    def behave(call):
        outcome = until_drained(call)
        assert may_end.wait(60)
        return outcome

    endpoint = serve(FakeEngine(behave), "localhost:0").endpoint
    result = start(f"--job_endpoint={endpoint}", runner="PortableRunner")
    with grpc.insecure_channel(endpoint) as channel:
        service = beam_job_api_pb2_grpc.JobServiceStub(channel)
        states = service.GetStateStream(api.GetJobStateRequest(job_id=result._job_id))
        next(event for event in states if event.state == api.JobState.RUNNING)
        answer = service.Drain(api.DrainJobRequest(job_id=result._job_id))
        assert name(answer.state) == "DRAINING"
        assert result.state == PipelineState.DRAINING
        may_end.set()
        # Beam 2.77 takes every end but DONE for a failure; the state is told all the same.
        with pytest.raises(RuntimeError, match="failed in state DRAINED"):
            result.wait_until_finish()
        assert result.state == PipelineState.DRAINED
        assert [name(event.state) for event in states] == ["DRAINING", "DRAINED"]
