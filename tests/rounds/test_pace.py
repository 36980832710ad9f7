from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sparkdrain.rounds.pace import Pace

TARGET = 0.2


def settle(seconds_per_element: float, fixed: float, rounds: int = 200) -> tuple[Pace, float]:
    """A source with endless backlog: each round takes all that it may."""
    pace = Pace(TARGET)
    took = 0.0
    for _ in range(rounds):
        reading = min(pace.elements * seconds_per_element, pace.seconds)
        took = fixed + 2 * reading
        pace.took(took, [])
    return pace, took


@given(st.floats(1e-7, 1e-4), st.floats(0, 0.1))
def test_makes_rounds_of_a_backlog_last_about_as_long_as_they_should(per_element, fixed):
    _, took = settle(per_element, fixed)
    assert took <= 2 * TARGET


@given(st.lists(st.floats(0, 100), max_size=50))
def test_always_leaves_something_to_do(rounds):
    pace = Pace(TARGET)
    for seconds in rounds:
        pace.took(seconds, [])
        assert pace.elements >= 1
        assert 0 < pace.seconds <= TARGET


def test_takes_less_after_a_burst_and_more_again_when_it_is_over():
    pace = Pace(TARGET)
    for _ in range(20):
        pace.took(10 * TARGET, [])
    slow = pace.elements, pace.seconds
    for _ in range(100):
        pace.took(TARGET / 10, [])
    assert pace.elements > 10 * slow[0]
    assert pace.seconds > slow[1]
