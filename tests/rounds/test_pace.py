from __future__ import annotations

import itertools
from itertools import pairwise
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.load import Load, Round

from sparkdrain.rounds.driver.pace import Pace, made_in, work_of
from sparkdrain.rounds.messages import RoundReport
from sparkdrain.watermarks.frontier import BEGIN

TARGET = 0.2


def busy(level: int, slot: int, seconds: float, made: int = 0) -> RoundReport:
    return RoundReport(
        level, slot, 1, 1, {}, (BEGIN,), frozenset(), None, busy=seconds, made=made, spent=True
    )


def settled(load: Load, rounds: int = 200) -> list[Round]:
    """The last rounds of many."""
    return list(load.rounds(Pace(TARGET), rounds))[-40:]


def goal_behind(cost: float) -> float:
    """How long rounds of a job that lags should be, by what they cost beside their slots."""
    return max(TARGET, 4 * cost, min(8 * cost, 5 * TARGET))


def rate(rounds: list[Round]) -> float:
    return sum(r.made for r in rounds) / sum(r.took for r in rounds)


def length(rounds: list[Round]) -> float:
    return fmean(r.took for r in rounds)


# --- elements that always wait --------------------------------------------------------------------


@given(st.floats(1e-7, 1e-5), st.floats(0, 0.04), st.floats(0, 0.02), st.floats(0, 5))
def test_makes_rounds_of_a_backlog_last_about_as_long_as_they_should(each, cost, fixed, later):
    rounds = settled(Load(each, later, fixed, cost))
    assert all(r.took <= 1.3 * goal_behind(cost) for r in rounds)
    assert length(rounds) >= 0.7 * goal_behind(cost)


@given(st.floats(0.1, 2), st.floats(0, 1), st.floats(1e-6, 1e-5))
def test_works_for_half_of_the_time_where_rounds_alone_take_more(cost, share, each):
    inside = cost * share / 2
    rounds = settled(Load(each, 1.0, inside, cost - 2 * inside))
    expected = max(2 * cost, goal_behind((1 - share) * cost))
    assert length(rounds) == pytest.approx(expected, rel=0.3)


@given(st.floats(0.1, 2), st.floats(1e-6, 1e-5))
def test_work_that_elements_do_not_make_does_not_make_rounds_tiny(fixed, each):
    load = Load(each, 1.0, fixed, 0.05)
    assert rate(settled(load)) >= 0.4 / (2 * each)


@given(st.floats(2, 20), st.floats(0, 0.1), st.floats(0, 0.2))
def test_an_overloaded_machine_does_not_fall_into_tiny_rounds(slowness, fixed, noise):
    load = Load(fixed=fixed, noise=noise)
    pace = Pace(TARGET)
    quiet = list(load.rounds(pace, 150))[-40:]
    load.slowness = slowness
    loaded = list(load.rounds(pace, 150))[-40:]
    # As many elements as before in as much more time as everything takes, about.
    assert rate(loaded) * slowness >= 0.5 * rate(quiet)
    assert length(loaded) <= 2.5 * slowness * max(TARGET, length(quiet))
    load.slowness = 1
    assert length(list(load.rounds(pace, 150))[-40:]) <= 1.5 * length(quiet)


@given(st.floats(2, 20), st.floats(0, 0.1))
def test_follows_elements_that_become_dearer_and_cheaper_again(times, fixed):
    load = Load(fixed=fixed)
    pace = Pace(TARGET)
    before = list(load.rounds(pace, 150))[-40:]
    load.each *= times
    dearer = list(load.rounds(pace, 150))[-40:]
    load.each /= times
    after = list(load.rounds(pace, 150))[-40:]
    assert length(dearer) <= 1.5 * length(before)
    assert rate(dearer) * times >= 0.6 * rate(before)
    assert rate(after) >= 0.8 * rate(before)


def test_a_source_of_slow_elements_is_stopped_by_time():
    rounds = settled(Load(each=1e-3))
    assert length(rounds) == pytest.approx(goal_behind(Load().cost), rel=0.3)


# --- elements that come -----------------------------------------------------------------------


@given(st.floats(0, 0.05), st.floats(0, 0.3))
def test_a_burst_of_ten_times_as_much_is_absorbed_in_bounded_rounds_and_worked_off(fixed, noise):
    # 20,000 in a second, of 50,000 to 180,000 that the machine can do.
    load = Load(each=2.5e-6, rate=20_000, fixed=fixed, noise=noise)
    pace = Pace(TARGET)
    calm = list(load.rounds(pace, 100))[-40:]
    load.rate = 200_000
    burst = list(load.rounds(pace, 30))
    assert burst[-1].backlog > 50_000
    load.rate = 20_000
    after = list(load.rounds(pace, 600))
    assert all(r.made <= 150_000 for r in burst + after)
    assert all(r.took <= 5 * TARGET for r in burst + after)
    # As it was: each round makes what has come since the one before it.
    assert after[-1].backlog <= 2 * max(r.backlog for r in calm)
    assert length(after[-40:]) <= 1.2 * length(calm)


def test_rounds_that_have_little_to_do_say_nothing_about_what_they_could():
    pace = Pace(TARGET)
    list(Load().rounds(pace, 50))
    budget = pace.elements
    load = Load(rate=10, fixed=0.5)
    list(load.rounds(pace, 100))
    assert pace.elements >= budget


def test_more_of_the_time_goes_to_work_when_the_job_lags_behind():
    took = {}
    for behind, cost in itertools.product((False, True), (0.1, 0.2, 0.4)):
        pace = Pace(TARGET)
        for _ in range(100):
            took[behind, cost] = cost + pace.seconds
            pace.took(took[behind, cost], [busy(0, 0, pace.seconds, 1000)], behind=behind)
    for cost in (0.1, 0.2, 0.4):
        assert took[False, cost] == pytest.approx(2 * cost, rel=0.1)
        assert took[True, cost] == pytest.approx(goal_behind(cost), rel=0.1)


def test_nearly_all_of_the_time_of_a_drain_goes_to_work():
    pace = Pace(TARGET)
    for _ in range(100):
        took = 0.1 + pace.seconds
        pace.took(took, [busy(0, 0, pace.seconds, 1000)], behind=True, draining=True)
    assert took == pytest.approx(12 * 0.1, rel=0.1)


# --- whatever happens -------------------------------------------------------------------------


@given(st.lists(st.tuples(st.floats(0, 100), st.floats(0, 1), st.integers(0, 10**7)), max_size=100))
def test_always_leaves_something_to_do_and_never_everything(rounds):
    pace = Pace(TARGET)
    budgets = [pace.elements]
    for seconds, share, made in rounds:
        pace.took(seconds, [busy(0, 0, seconds * share, made)])
        assert 500 <= pace.elements <= 5_000_000
        assert pace.seconds > 0
        budgets.append(pace.elements)
    # Half in a trial, and back again.
    assert all(after <= 2.5 * before + 1 for before, after in pairwise(budgets))


def test_elements_that_take_far_too_long_shrink_the_budget_to_a_limit():
    pace = Pace(TARGET)
    budgets = []
    for _ in range(100):
        took = pace.elements * 1.0
        pace.took(took, [busy(0, 0, took, pace.elements)])
        budgets.append(pace.elements)
    assert min(budgets) == 500, "in a trial"
    assert budgets[-2] == 1000


def test_the_slots_of_a_level_work_at_the_same_time_and_levels_after_each_other():
    reports = [busy(0, 0, 1.0, 7), busy(0, 1, 3.0, 5), busy(2, 0, 0.5, 2)]
    assert work_of(reports) == 3.5
    assert made_in(reports) == 9
