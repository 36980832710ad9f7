from __future__ import annotations

import logging
import threading

import pytest
from apache_beam.portability.api import beam_job_api_pb2
from google.protobuf.timestamp_pb2 import Timestamp
from hypothesis import given
from hypothesis import strategies as st

from sparkdrain.invocation import importance_of
from sparkdrain.jobs.messages import JobLogs, Messages, failure_kind, is_own_log_record, shortened

M = beam_job_api_pb2.JobMessage


def messages(capacity: int = 10) -> Messages:
    return Messages(lambda: Timestamp(seconds=1), capacity)


def texts(kept: Messages) -> list[str]:
    kept.close()
    return [response.message_response.message_text for response in kept.follow()]


def test_a_message_has_its_importance_its_text_its_time_and_a_number():
    kept = messages()
    kept.message(M.JOB_MESSAGE_BASIC, "one")
    kept.message(M.JOB_MESSAGE_ERROR, "two")
    kept.close()
    first, second = (response.message_response for response in kept.follow())
    assert (first.importance, first.message_text) == (M.JOB_MESSAGE_BASIC, "one")
    assert (first.message_id, second.message_id) == ("1", "2")
    assert first.time == "1970-01-01T00:00:01Z"


def test_states_stand_between_messages_as_they_came():
    kept = messages()
    kept.message(M.JOB_MESSAGE_BASIC, "before")
    kept.state(beam_job_api_pb2.JobStateEvent(state=beam_job_api_pb2.JobState.RUNNING))
    kept.message(M.JOB_MESSAGE_BASIC, "after")
    kept.close()
    kinds = [response.WhichOneof("response") for response in kept.follow()]
    assert kinds == ["message_response", "state_response", "message_response"]


def test_old_messages_are_dropped_and_the_reader_is_told():
    kept = messages(capacity=2)
    for number in range(5):
        kept.message(M.JOB_MESSAGE_BASIC, str(number))
    assert texts(kept) == ["3 earlier messages of this job are no longer kept.", "3", "4"]


def test_a_failure_is_known_by_its_kind_and_nothing_else_is_one():
    kept = messages()
    kept.failed("WorkerLost", "gone")
    kept.logged(M.JOB_MESSAGE_ERROR, "logged")
    kept.message(M.JOB_MESSAGE_ERROR, "said")
    kept.close()
    sent = [response.message_response for response in kept.follow()]
    assert [failure_kind(message) for message in sent] == ["WorkerLost", None, None]
    assert [is_own_log_record(message) for message in sent] == [False, True, False]


@given(st.text(max_size=200), st.integers(min_value=2, max_value=100))
def test_a_shortened_text_keeps_its_two_ends_and_says_what_is_missing(text, longest):
    short = shortened(text, longest)
    if len(text) <= longest:
        assert short == text
    else:
        half = longest // 2
        assert short.startswith(text[:half])
        assert short.endswith(text[-half:])
        assert f"{len(text) - 2 * half} characters left out" in short


class TestLogs:
    @pytest.fixture
    def logger(self):
        return logging.getLogger("a.job")

    def in_thread(self, name: str, action) -> None:
        thread = threading.Thread(target=action, name=name)
        thread.start()
        thread.join(30)

    def test_what_a_jobs_threads_log_becomes_messages(self, logger):
        kept = messages()
        with JobLogs(kept, "job-1"):
            self.in_thread("job-1", lambda: logger.warning("mine %d", 1))
            self.in_thread("job-1/helper", lambda: logger.error("helper's"))
            self.in_thread("job-10", lambda: logger.error("another job's"))
            logger.error("the program's")
        self.in_thread("job-1", lambda: logger.error("afterwards"))
        assert texts(kept) == ["mine 1", "helper's"]

    def test_a_logged_exception_keeps_its_traceback(self, logger):
        def fail() -> None:
            try:
                _ = {}["lost"]
            except KeyError:
                logger.exception("It failed.")

        kept = messages()
        with JobLogs(kept, "job-1"):
            self.in_thread("job-1", fail)
        (text,) = texts(kept)
        assert text.startswith("It failed.\nTraceback")
        assert text.endswith("KeyError: 'lost'")

    @pytest.mark.parametrize(
        ("level", "importance"),
        [
            (logging.CRITICAL, M.JOB_MESSAGE_ERROR),
            (logging.ERROR, M.JOB_MESSAGE_ERROR),
            (logging.WARNING, M.JOB_MESSAGE_WARNING),
            (logging.INFO, M.JOB_MESSAGE_BASIC),
            (logging.DEBUG, M.JOB_MESSAGE_DEBUG),
            (25, M.JOB_MESSAGE_BASIC),
            (1, M.JOB_MESSAGE_DEBUG),
        ],
    )
    def test_every_level_has_an_importance(self, level, importance):
        assert importance_of(level) == importance
