from __future__ import annotations

import itertools

import pytest
from apache_beam.portability.api import beam_job_api_pb2
from google.protobuf.timestamp_pb2 import Timestamp
from hypothesis import given
from hypothesis import strategies as st

from sparkdrain.jobs.states import TERMINAL, TRANSITIONS, IllegalTransition, name
from sparkdrain.jobs.story import JobStory

S = beam_job_api_pb2.JobState


def story() -> JobStory:
    ticks = iter(range(1000))
    return JobStory(lambda: Timestamp(seconds=next(ticks)))


def history(job):
    job.states.close()
    return list(job.states.follow())


def test_a_job_begins_stopped():
    assert story().state.state == S.STOPPED


def test_states_are_kept_with_the_time_at_which_they_were_entered():
    job = story()
    for state in (S.STARTING, S.RUNNING, S.DONE):
        job.move(state)
    times = [(event.state, event.timestamp.seconds) for event in history(job)]
    assert times == [(S.STOPPED, 0), (S.STARTING, 1), (S.RUNNING, 2), (S.DONE, 3)]


def test_an_illegal_step_is_refused_with_the_history():
    job = story()
    job.move(S.STARTING)
    with pytest.raises(IllegalTransition, match=r"become DRAINED after STOPPED -> STARTING\."):
        job.move(S.DRAINED)
    assert job.state.state == S.STARTING


@given(st.lists(st.sampled_from(sorted(TRANSITIONS)), max_size=12))
def test_every_history_is_a_path_through_the_table(wishes):
    job = story()
    for wish in wishes:
        try:
            job.move(wish)
        except IllegalTransition:
            continue
    path = [event.state for event in history(job)]
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
