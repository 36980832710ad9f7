from __future__ import annotations

import logging
import threading
import uuid

import pytest
from apache_beam.portability.api import beam_job_api_pb2
from fake_engine import FakeEngine, until_cancelled
from google.protobuf.struct_pb2 import Struct
from google.protobuf.timestamp_pb2 import Timestamp

from sparkdrain.coordination.address import StoreAddress
from sparkdrain.errors import BadSetup, Cancelled, UserCodeError
from sparkdrain.jobs.job import Job
from sparkdrain.jobs.messages import failure_kind
from sparkdrain.jobs.served import Submission
from sparkdrain.jobs.states import IllegalTransition, name
from sparkdrain.options import JobSettings

M = beam_job_api_pb2.JobMessage


def job(engine: FakeEngine) -> Job:
    settings = JobSettings(slots=2, metadata_store=StoreAddress("memory", uuid.uuid4().hex))
    submission = Submission("wc-1", "wc", "a pipeline", Struct(), {"slots": 2}, settings)
    return Job(submission, engine, lambda: Timestamp(seconds=7))


def run(made: Job, collect=lambda: (), clean_up=lambda: None) -> list[str]:
    made.run(collect, clean_up)
    return path(made)


def path(made: Job) -> list[str]:
    """Waits for the end of the job."""
    return [name(event.state) for event in made.story.states.follow()]


def failure(made: Job) -> tuple[str, str]:
    sent = [response.message_response for response in made.story.messages.follow()]
    (failed,) = [message for message in sent if failure_kind(message)]
    return failure_kind(failed), failed.message_text


def test_a_job_hands_the_engine_what_was_submitted_and_ends_as_done():
    engine = FakeEngine()
    made = job(engine)
    assert run(made, collect=lambda: ("a file",)) == ["STOPPED", "STARTING", "RUNNING", "DONE"]
    (call,) = engine.calls
    assert (call.pipeline, call.settings.slots, call.artifacts) == ("a pipeline", 2, ("a file",))
    assert (call.job_id, call.job_name, call.pipeline_options) == ("wc-1", "wc", {"slots": 2})
    assert made.outcome is not None
    assert made.story.wait(30)


def test_a_failing_job_says_why_and_ends_as_failed():
    def fail(call) -> None:
        message = "ValueError: bad row [while running 'Parse']"
        raise UserCodeError(message)

    made = job(FakeEngine(fail))
    assert run(made) == ["STOPPED", "STARTING", "RUNNING", "FAILED"]
    kind, text = failure(made)
    assert kind == "UserCodeError"
    assert text.startswith("ValueError: bad row [while running 'Parse']\n\nJob 'wc' (wc-1) failed")
    assert made.outcome is None


def test_code_that_leaves_the_thread_fails_the_job_too():
    def leave(call) -> None:
        raise SystemExit(3)

    made = job(FakeEngine(leave))
    assert run(made)[-1] == "FAILED"
    assert failure(made)[1].startswith("SystemExit: 3")


def test_a_job_whose_files_are_not_there_fails_before_the_engine_is_asked():
    def collect():
        message = "not staged"
        raise BadSetup(message)

    engine = FakeEngine()
    made = job(engine)
    assert run(made, collect) == ["STOPPED", "STARTING", "FAILED"]
    assert engine.calls == []
    assert failure(made)[0] == "BadSetup"


@pytest.mark.parametrize("behave", [lambda call: None, lambda call: 1 / 0])
def test_files_are_removed_at_every_end_and_before_it_is_told(behave):
    seen = []
    made = job(FakeEngine(behave))
    run(made, clean_up=lambda: seen.append(made.story.wait(0)))
    assert seen == [False]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_job_ends_even_if_cleaning_up_fails():
    made = job(FakeEngine())
    assert run(made, clean_up=lambda: 1 / 0)[-1] == "DONE"
    for thread in threading.enumerate():
        if thread.name == "sparkdrain-job-wc-1":
            thread.join(30)  # its exception belongs to this test


def test_a_running_job_is_cancelled_through_the_engine():
    running = threading.Event()

    def behave(call) -> None:
        running.set()
        until_cancelled(call)

    made = job(FakeEngine(behave))
    made.run(lambda: (), lambda: None)
    assert running.wait(30)
    made.cancel()
    made.cancel()
    assert path(made) == ["STOPPED", "STARTING", "RUNNING", "CANCELLING", "CANCELLED"]


def test_whatever_breaks_while_a_job_is_cancelled_is_only_a_detail():
    running = threading.Event()

    def behave(call) -> None:
        running.set()
        call.cancel.wait(30)
        message = "socket closed"
        raise ConnectionError(message)

    made = job(FakeEngine(behave))
    made.run(lambda: (), lambda: None)
    assert running.wait(30)
    made.cancel()
    assert path(made)[-1] == "CANCELLED"
    sent = [response.message_response for response in made.story.messages.follow()]
    (told,) = [message for message in sent if message.message_text]
    assert told.importance == M.JOB_MESSAGE_DETAILED
    assert "socket closed" in told.message_text


def test_a_job_that_was_cancelled_while_its_files_arrived_never_reaches_the_engine():
    engine, arriving, go_on = FakeEngine(), threading.Event(), threading.Event()

    def collect():
        arriving.set()
        assert go_on.wait(30)
        return ()

    made = job(engine)
    made.run(collect, lambda: None)
    assert arriving.wait(30)
    made.cancel()
    go_on.set()
    assert path(made) == ["STOPPED", "STARTING", "CANCELLING", "CANCELLED"]
    assert engine.calls == []


def test_a_job_can_be_cancelled_before_it_runs_and_then_never_runs():
    made = job(FakeEngine())
    made.cancel()
    assert path(made) == ["STOPPED", "CANCELLED"]
    assert made.story.wait(0)
    with pytest.raises(IllegalTransition, match=r"become STARTING after STOPPED -> CANCELLED"):
        made.run(lambda: (), lambda: None)


def test_cancelling_a_job_that_is_over_changes_nothing():
    made = job(FakeEngine())
    run(made)
    made.cancel()
    assert path(made)[-1] == "DONE"


def test_a_job_that_spark_cancelled_has_failed():
    def behave(call) -> None:
        message = "killed in the UI"
        raise Cancelled(message)

    made = job(FakeEngine(behave))
    assert run(made)[-1] == "FAILED"
    assert failure(made)[0] == "Cancelled"


def test_a_job_runs_once():
    made = job(FakeEngine())
    run(made)
    with pytest.raises(IllegalTransition):
        made.run(lambda: (), lambda: None)


def test_what_the_engine_says_and_logs_is_in_the_message_stream():
    def behave(call) -> None:
        call.observer.message(M.JOB_MESSAGE_BASIC, "level 1 of 2")
        logging.getLogger("engine").warning("disk is slow")

    made = job(FakeEngine(behave))
    run(made)
    sent = [response.message_response for response in made.story.messages.follow()]
    told = [(message.importance, message.message_text) for message in sent if message.message_text]
    assert told == [(M.JOB_MESSAGE_BASIC, "level 1 of 2"), (M.JOB_MESSAGE_WARNING, "disk is slow")]


def test_jobs_fail_alone():
    going, go_on = threading.Event(), threading.Event()

    def slow(call) -> None:
        going.set()
        assert go_on.wait(30)

    good, bad = job(FakeEngine(slow)), job(FakeEngine(lambda call: 1 / 0))
    good.run(lambda: (), lambda: None)
    assert going.wait(30)
    assert run(bad)[-1] == "FAILED"
    assert good.is_running
    go_on.set()
    assert path(good)[-1] == "DONE"
