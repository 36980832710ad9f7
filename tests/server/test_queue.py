from __future__ import annotations

import threading

from hypothesis import given
from hypothesis import strategies as st

from sparkdrain.server.admission import Admission
from sparkdrain.types import CancelToken


def enter(admission, job):
    """Let a job come, and wait for nothing; answers how many wait before it, if it has to."""
    told, cancel = [], CancelToken()
    cancel.cancel()
    admission.wait_for(job, cancel, told.append)
    return told


def test_jobs_run_in_the_order_in_which_they_came():
    admission = Admission(2)
    assert [enter(admission, each) for each in "abcd"] == [[], [], [0], [1]]
    admission.leave("b")
    assert [admission.may_run(each) for each in "acd"] == [True, True, False]
    admission.leave("d")
    admission.leave("a")
    assert not admission.may_run("d")


@given(st.integers(1, 4), st.lists(st.tuples(st.booleans(), st.integers(0, 20))))
def test_as_many_run_as_may_and_nobody_is_overtaken(limit, steps):
    admission, there = Admission(limit), []
    for comes, number in steps:
        job = str(number)
        if comes and job not in there:
            enter(admission, job)
            there.append(job)
        elif not comes and job in there:
            admission.leave(job)
            there.remove(job)
        assert [each for each in there if admission.may_run(each)] == there[:limit]


def test_a_job_that_is_cancelled_stops_waiting_and_keeps_nobody_back():
    admission, told, cancel = Admission(1), [], CancelToken()
    assert admission.wait_for("a", CancelToken(), told.append)
    answers = []
    waits = threading.Thread(
        target=lambda: answers.append(admission.wait_for("b", cancel, told.append))
    )
    waits.start()
    cancel.cancel()
    waits.join(30)
    assert answers == [False]
    admission.leave("b")
    admission.leave("a")
    assert admission.wait_for("c", CancelToken(), told.append)
    assert told == [0]
