from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sparkdrain.drain.progress import Hold, Left, advanced, began

SECOND = 1_000_000
COUNTS = st.integers(0, 10)
LEFT = st.builds(Left, st.sampled_from("abc"), COUNTS, COUNTS, COUNTS, COUNTS, COUNTS, COUNTS)


def windows(number: int) -> list[Left]:
    return [Left("Group", 1, 1, windows=number)]


def test_what_slots_report_of_a_stage_is_added_up():
    left = [
        Left("Read", 1, 1, residuals=2),
        Left("Group", 4, 3, windows=5, timers=1),
        Left("Read", 1, 1),
        Left("Group", 4, 4, windows=7, parked=2),
    ]
    after = advanced(began("r", 0), SECOND, left, [])
    assert after.stages == (
        Left("Read", 2, 2, residuals=2),
        Left("Group", 8, 7, windows=12, timers=1, parked=2),
    )
    assert after.things == 17
    assert after.stages_drained == 0


@given(st.lists(LEFT), st.randoms())
def test_the_order_of_slots_does_not_matter(left, random):
    shuffled = random.sample(left, len(left))
    one, other = (advanced(began("r", 0), 1, each, []) for each in (left, shuffled))
    assert sorted(one.stages, key=str) == sorted(other.stages, key=str)
    assert one.things == sum(each.things for each in left)


def test_a_stage_is_drained_when_all_producers_said_so_and_nothing_is_inside():
    assert Left("s", 2, 2).is_drained
    assert Left("s", 0, 0).is_drained
    assert not Left("s", 2, 1).is_drained
    for what in ("windows", "timers", "parked", "residuals"):
        assert not Left("s", 2, 2, **{what: 1}).is_drained


def test_rate_and_expected_end_count_from_when_there_was_most_inside():
    now = began("r", 0)
    now = advanced(now, 1 * SECOND, windows(100), [])
    assert (now.rate, now.expected_end) == (0.0, None)
    now = advanced(now, 2 * SECOND, windows(400), [])
    now = advanced(now, 4 * SECOND, windows(300), [])
    assert now.rate == 50
    assert now.expected_end == 10 * SECOND
    now = advanced(now, 10 * SECOND, windows(0), [])
    assert now.expected_end == now.now


def test_a_drain_that_stands_still_has_no_expected_end():
    now = advanced(began("r", 0), SECOND, windows(100), [])
    now = advanced(now, 5 * SECOND, windows(100), [])
    assert now.expected_end is None


def test_nothing_inside_is_not_the_end_while_a_producer_has_not_reported():
    now = advanced(began("r", 0), SECOND, [Left("Group", 2, 1)], [])
    assert now.expected_end is None


def test_the_oldest_hold_is_told_with_its_age():
    holds = [Hold("B", "timers", 20), Hold("A", "windows", 10)]
    now = advanced(began("r", 0), 1 * SECOND, [], holds)
    assert (now.hold, now.held_since) == (holds[1], 1 * SECOND)
    now = advanced(now, 5 * SECOND, [], holds)
    assert (now.hold, now.held_since) == (holds[1], 1 * SECOND)
    now = advanced(now, 6 * SECOND, [], holds[:1])
    assert (now.hold, now.held_since) == (holds[0], 6 * SECOND)
    assert advanced(now, 7 * SECOND, [], []).hold is None
