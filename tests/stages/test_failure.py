"""A failure survives the way from a task to the driver, whatever was raised."""

from __future__ import annotations

import logging
from traceback import format_exception_only

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkdrain.notes import made_by
from sparkdrain.shuffle.blocks import decode
from sparkdrain.stages.telling.failure import (
    TaskFailed,
    failure_in,
    failure_of,
    guarded,
    silence_told_failures,
)


def raised(error: BaseException) -> BaseException:
    """``error`` with the traceback of a function of this module."""
    try:
        raise error
    except BaseException as caught:  # noqa: BLE001 - that is what is wanted
        return caught


def through_spark(error: BaseException) -> str:
    """What Spark says of a task that raised ``error``."""
    with pytest.raises(TaskFailed) as failed, guarded(4, 2):
        raise error
    return f"Job aborted: PythonException: Traceback\n  TaskFailed: {failed.value}\n\n\tat java\n"


@given(text=st.text())
def test_any_text_of_an_exception_arrives_as_it_was(text):
    failure = failure_in(through_spark(ValueError(text)))
    assert failure is not None
    assert failure.message == "".join(format_exception_only(ValueError(text))).strip()
    assert (failure.kind, failure.level, failure.slot) == ("ValueError", 4, 2)


def test_what_carries_no_failure_is_not_taken_for_one():
    assert failure_in("Job aborted due to stage failure") is None


def test_an_abandoned_generator_is_no_failure():
    def task():
        with guarded(0, 0):
            yield 1

    running = task()
    next(running)
    running.close()


def test_user_code_is_told_from_the_runners_own():
    assert failure_of(raised(KeyError("x")), 0, 0, "host").by_user
    with pytest.raises(ValueError, match="unknown record kind") as own:
        decode(bytes(15))
    assert not failure_of(own.value, 0, 0, "host").by_user


def test_what_happens_to_what_a_step_has_made_is_the_users_and_names_the_step():
    with pytest.raises(ValueError, match="unknown record kind") as own, made_by("Make"):
        decode(bytes(15))
    failure = failure_of(own.value, 0, 0, "host")
    assert failure.by_user
    assert failure.message.endswith("[while running 'Make']")


def test_beams_copies_of_an_exception_are_left_out():
    original = raised(ValueError("bad"))
    copy = ValueError("bad [while running 'A']")
    copy._tagged_with_step = True
    copy.__context__ = original
    failure = failure_of(copy, 0, 0, "host")
    assert failure.message == "ValueError: bad [while running 'A']"
    assert failure.trace.rstrip().endswith("ValueError: bad")
    assert "another exception" not in failure.trace


def test_a_long_text_keeps_its_beginning_and_its_end():
    failure = failure_of(raised(ValueError("start" + "x" * 10**6 + "end")), 0, 0, "host")
    assert failure.message.startswith("ValueError: start")
    assert failure.message.endswith("end")
    assert len(failure.message) < 70_000


def test_an_exception_that_the_driver_will_raise_is_not_logged_by_the_worker(caplog):
    logger = logging.getLogger("test-told")
    silence_told_failures(logger)
    silence_told_failures(logger)
    told = ValueError("told")
    told._tagged_with_step = True
    logger.error(told)
    logger.error(ValueError("not told"))
    assert [str(record.msg) for record in caplog.records] == ["not told"]
    assert len(logger.filters) == 1
