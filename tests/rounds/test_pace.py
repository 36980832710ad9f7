from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_schedule import report

from sparkdrain.rounds.driver.pace import Pace, work_of
from sparkdrain.rounds.messages import RoundReport

TARGET = 0.2


def busy(level: int, slot: int, seconds: float) -> RoundReport:
    made = report(level, slot)
    return RoundReport(level, slot, 1, 1, {}, made.outputs, made.sent, None, busy=seconds)


def settle(per_element: float, cost: float, later: float, rounds: int = 200) -> tuple[Pace, float]:
    """A source with endless backlog: each round takes all that it may.

    ``later`` is the work behind the source, for each second that it reads.
    """
    pace = Pace(TARGET)
    took = 0.0
    for _ in range(rounds):
        reading = min(pace.elements * per_element, pace.seconds)
        took = cost + reading * (1 + later)
        pace.took(took, [busy(0, 0, reading), busy(1, 0, reading * later)])
    return pace, took


@given(st.floats(1e-7, 1e-5), st.floats(0, 0.08), st.floats(0, 5))
def test_makes_rounds_of_a_backlog_last_about_as_long_as_they_should(per_element, cost, later):
    _, took = settle(per_element, cost, later)
    assert took <= 1.3 * TARGET


@given(st.floats(0.2, 5), st.floats(0, 5))
def test_works_for_half_of_the_time_where_rounds_alone_cost_more(cost, later):
    _, took = settle(1e-6, cost, later)
    assert took == pytest.approx(2 * cost, rel=0.3)


def test_gives_more_of_the_time_to_work_when_the_job_lags_behind():
    cost, took = 0.1, 0.0
    pace = Pace(TARGET)
    for _ in range(100):
        took = cost + pace.seconds
        pace.took(took, [busy(0, 0, pace.seconds)], behind=True)
    assert took == pytest.approx(4 * cost, rel=0.1)


@given(st.lists(st.tuples(st.floats(0, 100), st.floats(0, 1)), max_size=50))
def test_always_leaves_something_to_do(rounds):
    pace = Pace(TARGET)
    for seconds, share in rounds:
        pace.took(seconds, [busy(0, 0, seconds * share)])
        assert pace.elements >= 1_000
        assert pace.seconds > 0


def test_takes_less_after_a_burst_and_more_again_when_it_is_over():
    pace = Pace(TARGET)
    for _ in range(20):
        pace.took(10 * TARGET, [busy(0, 0, 10 * TARGET)])
    slow = pace.elements, pace.seconds
    for _ in range(100):
        pace.took(TARGET / 10, [busy(0, 0, TARGET / 10)])
    assert pace.elements > 10 * slow[0]
    assert pace.seconds > slow[1]


def test_the_slots_of_a_level_work_at_the_same_time_and_levels_after_each_other():
    assert work_of([busy(0, 0, 1.0), busy(0, 1, 3.0), busy(2, 0, 0.5)]) == 3.5
