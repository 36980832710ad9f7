"""Warnings of tasks are issued in the program."""

from __future__ import annotations

import pickle
import warnings

import pytest

from sparkdrain.stages.telling.report import Warned, forget_warnings, noted


class Odd(RuntimeWarning):
    pass


def odd(text: str) -> None:
    warnings.warn(text, Odd, stacklevel=1)


@pytest.fixture
def shown():
    """The warnings that this process shows."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        yield seen


def texts(shown) -> list[str]:
    return [str(one.message) for one in shown]


def test_what_is_issued_in_a_task_is_issued_again_with_its_kind_and_place(shown):
    with noted() as notes:
        odd("strange")
        odd("strange")
        odd("stranger")
    assert shown == []
    for warned in pickle.loads(pickle.dumps(notes)):
        warned.issue()
    assert texts(shown) == ["strange", "stranger"]
    assert {one.category for one in shown} == {Odd}
    assert {one.filename for one in shown} == {__file__}


def test_a_class_that_only_the_worker_knows_becomes_a_user_warning():
    with pytest.warns(UserWarning, match="far"):
        Warned("far", ("only.there", "Far"), "there.py", 1).issue()


def test_where_warnings_are_errors_a_late_one_is_logged(caplog):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Warned("late", (__name__, "Odd"), "there.py", 1).issue()
    assert caplog.messages == ["Odd: late"]


def fail() -> None:
    msg = "boom"
    raise ValueError(msg)


def test_a_task_that_fails_shows_its_warnings_itself(shown):
    before = warnings.showwarning
    with pytest.raises(ValueError, match="boom"), noted():
        odd("before the end")
        fail()
    assert texts(shown) == ["before the end"]
    assert warnings.showwarning is before


def test_many_different_ones_are_not_all_kept(shown):
    with noted() as notes:
        for number in range(150):
            odd(f"number {number}")
    assert len(notes) == 100
    assert texts(shown) == [f"number {number}" for number in range(100, 150)]


def test_the_next_job_in_a_worker_is_warned_again(python):
    code = """
import warnings
from sparkdrain.stages.telling.report import forget_warnings, noted
warnings.simplefilter("once", RuntimeWarning)
def issue():
    warnings.warn("once", RuntimeWarning)
    warnings.warn("default", UserWarning)
counts = []
for job in range(3):
    if job == 2:
        forget_warnings()
    with noted() as notes:
        issue()
    counts.append(len(notes))
print(counts)
"""
    done = python("-c", code)
    assert done.stdout.strip() == "[2, 0, 2]", done.stderr


def test_forgetting_leaves_the_filters_as_they_are():
    before = list(warnings.filters)
    forget_warnings()
    assert warnings.filters == before
