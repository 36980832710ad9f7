from __future__ import annotations

import itertools

import pytest
from apache_beam.portability.api import beam_job_api_pb2
from google.protobuf.timestamp_pb2 import Timestamp
from hypothesis import given
from hypothesis import strategies as st

from sparkdrain.jobs.states import TERMINAL, TRANSITIONS, IllegalTransition, JobStates, name

S = beam_job_api_pb2.JobState


def states() -> JobStates:
    ticks = iter(range(1000))
    return JobStates(lambda: Timestamp(seconds=next(ticks)))


def test_a_job_begins_stopped():
    assert states().current.state == S.STOPPED


def test_states_are_kept_with_the_time_at_which_they_were_entered():
    job = states()
    for state in (S.STARTING, S.RUNNING, S.DONE):
        job.move(state)
    times = [(event.state, event.timestamp.seconds) for event in job.history]
    assert times == [(S.STOPPED, 0), (S.STARTING, 1), (S.RUNNING, 2), (S.DONE, 3)]


def test_an_illegal_step_is_refused_with_the_history():
    job = states()
    job.move(S.STARTING)
    with pytest.raises(IllegalTransition, match=r"become DRAINED after STOPPED -> STARTING\."):
        job.move(S.DRAINED)
    assert job.current.state == S.STARTING


@given(st.lists(st.sampled_from(sorted(TRANSITIONS)), max_size=12))
def test_every_history_is_a_path_through_the_table(wishes):
    job = states()
    for wish in wishes:
        try:
            job.move(wish)
        except IllegalTransition:
            continue
    path = [event.state for event in job.history]
    assert all(after in TRANSITIONS[before] for before, after in itertools.pairwise(path))
    assert not TERMINAL & set(path[:-1])


def test_every_state_can_be_reached_and_every_way_ends_in_a_terminal_state():
    reached, waiting = set(), [S.STOPPED]
    while waiting:
        state = waiting.pop()
        if state not in reached:
            reached.add(state)
            waiting.extend(TRANSITIONS[state])
    assert reached == set(TRANSITIONS)
    assert {name(state) for state in TERMINAL} == {"DONE", "DRAINED", "FAILED", "CANCELLED"}
