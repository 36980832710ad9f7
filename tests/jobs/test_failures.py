from __future__ import annotations

import pickle
import traceback

import pytest

from sparkdrain import errors
from sparkdrain.jobs.failures import as_exception, describe
from sparkdrain.notes import add_note

KINDS = [
    kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, errors.SparkDrainError)
]


def test_the_users_own_exception_comes_first_then_what_happened_then_the_traceback():
    trace = "Traceback (most recent call last):\n  File 'x.py'\nValueError: bad row"
    error = errors.UserCodeError(f"ValueError: bad row [while running 'Parse']\n\n{trace}")
    failure = describe(error, "'wc' (wc-1)")
    assert failure == (
        "ValueError: bad row [while running 'Parse']\n\n"
        "Job 'wc' (wc-1) failed: the pipeline's own code raised this.\n\n" + trace
    )


def test_an_exception_of_several_paragraphs_stays_whole():
    error = errors.UserCodeError("ValueError: bad\n\nrow [while running 'Parse']\n\nOn host a.")
    text = describe(error, "j")
    assert text.startswith("ValueError: bad\n\nrow [while running 'Parse']\n\nJob j failed")
    assert text.endswith(".\n\nOn host a.")


def test_what_the_engine_adds_in_further_paragraphs_stands_at_the_end():
    text = describe(errors.WorkerLost("Slot 3 is gone.\n\nExecutor 7 was killed."), "j")
    assert text.startswith("Slot 3 is gone.\n\nJob j failed: a Python worker")
    assert text.endswith(".\n\nExecutor 7 was killed.")


def test_notes_of_an_exception_stand_at_the_end():
    error = errors.WorkerLost("The worker of slot 3 is gone.")
    add_note(error, "executor 7 says: killed")
    text = describe(error, "'wc' (wc-1)")
    assert text.startswith("The worker of slot 3 is gone.\n\nJob 'wc' (wc-1) failed: a Python")
    assert text.endswith("\n\nexecutor 7 says: killed")


def test_an_exception_that_nobody_expected_is_called_an_error_of_the_runner():
    try:
        {}["key"]
    except KeyError as error:
        failure = describe(error, "'wc' (wc-1)")
        trace = "".join(traceback.format_exception(error)).strip()
    head, what, rest = failure.split("\n\n", 2)
    assert head == "KeyError: 'key'"
    assert "error inside the runner" in what
    assert rest == trace


def test_a_failure_without_a_text_is_called_by_its_kind():
    assert describe(errors.TruncatedInput(), "j").startswith("TruncatedInput\n\n")


def test_every_kind_of_failure_has_its_line():
    lines = {describe(kind("x"), "j") for kind in KINDS if kind is not errors.SparkDrainError}
    assert len(lines) == len(KINDS) - 1
    assert not any("inside the runner" in line for line in lines)


@pytest.mark.parametrize("kind", KINDS)
def test_at_the_client_a_failure_has_its_kind_and_is_a_runtime_error(kind):
    error = as_exception(kind.__name__, "text")
    assert isinstance(error, kind)
    assert isinstance(error, RuntimeError)
    assert str(error) == "text"
    assert type(error).__name__ == kind.__name__
    assert type(error) is type(as_exception(kind.__name__, "other"))


@pytest.mark.parametrize("kind", ["KeyError", "annotations", "", "NoSuchJob"])
def test_a_kind_that_the_client_does_not_know_is_a_plain_failure(kind):
    assert type(as_exception(kind, "text")).__name__ == "SparkDrainError"


def test_a_failure_can_be_pickled():
    error = pickle.loads(pickle.dumps(as_exception("WorkerLost", "text")))
    assert isinstance(error, errors.WorkerLost)
    assert str(error) == "text"
