from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkdrain.rounds.driver.fixed_work import FixedWork

elements = st.lists(st.integers(1, 10**6), max_size=30)


@given(elements, st.floats(0, 10), st.floats(1e-7, 1e-3))
def test_it_is_what_is_left_of_the_work_without_any_budget(budgets, fixed, each):
    seen = FixedWork()
    # Four that tell enough.
    for budget in [1000, 2000, 1000, 2000, *budgets]:
        seen.saw("elements", budget, budget, fixed + each * budget)
    work = fixed + each * 1000
    assert seen.of(work) == pytest.approx(min(fixed, 0.9 * work), abs=1e-6)


@given(elements, st.floats(0, 10))
def test_budgets_that_are_alike_tell_nothing(counts, work):
    seen = FixedWork()
    for made in counts:
        seen.saw("elements", 1000 + made % 100, made, work)
    assert seen.of(work) == 0


def test_a_smaller_budget_that_makes_as_much_tells_nothing():
    seen = FixedWork()
    for seconds in (1.0, 0.5, 1.0, 0.5, 1.0):
        # A single element, longer than either.
        seen.saw("seconds", seconds, 1, 3.0)
    assert seen.of(3.0) == 0


def test_budgets_of_different_kinds_tell_nothing():
    seen = FixedWork()
    for _ in range(5):
        seen.saw("elements", 1000, 1000, 3.0)
        seen.saw("seconds", 0.5, 500, 3.0)
    assert seen.of(3.0) == 0


def test_a_source_that_sleeps_until_its_time_is_over_has_no_fixed_work():
    seen = FixedWork()
    for seconds, made in ((1.0, 3), (0.5, 1), (1.0, 4), (0.5, 2), (1.0, 3), (1.0, 6), (1.0, 2)):
        seen.saw("seconds", seconds, made, seconds)
    assert seen.of(1.0) == 0


def test_a_machine_that_becomes_slower_does_not_pass_for_fixed_work():
    seen = FixedWork()
    for slowness in (1, 1, 1, 1, 10, 10, 10, 10):
        for budget in (1000, 2000):
            seen.saw("elements", budget, budget, slowness * budget * 1e-4)
    assert seen.of(1.0) == 0


@given(st.lists(st.tuples(st.integers(1, 10**7), st.floats(0, 100)), max_size=40), st.floats(0, 9))
def test_it_is_never_less_than_nothing_nor_all_of_the_work(rounds, work):
    seen = FixedWork()
    for budget, took in rounds:
        seen.saw("elements", budget, budget, took)
    assert 0 <= seen.of(work) <= 0.9 * work
