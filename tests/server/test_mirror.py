from __future__ import annotations

from itertools import product

from apache_beam.portability.api import beam_job_api_pb2 as api

from sparkdrain.jobs.states import TERMINAL, TRANSITIONS, steps

_S = api.JobState


def test_every_step_is_legal_and_every_end_is_reached_by_a_job_that_goes_on():
    for now, to in product(TRANSITIONS, TRANSITIONS):
        state = now
        for step in steps(now, to):
            assert step in TRANSITIONS[state]
            state = step
        if to in TERMINAL and now not in TERMINAL | {_S.STOPPED}:
            assert state == to


def test_a_driver_that_is_late_does_not_call_a_job_back():
    assert steps(_S.CANCELLING, _S.RUNNING) == ()
    assert steps(_S.DRAINING, _S.RUNNING) == ()
    assert steps(_S.RUNNING, _S.RUNNING) == ()
    assert steps(_S.DONE, _S.FAILED) == ()
