"""Processing time goes on whatever happens to the machine's clock."""

from __future__ import annotations

import logging

from hypothesis import given
from hypothesis import strategies as st

from sparkdrain.rounds.clock import WallClock
from sparkdrain.types import CancelToken

MINUTE = 60 * 1_000_000
DAY = 24 * 60 * MINUTE


class Machine:
    """Time passes, and somebody sets the clock; microseconds."""

    def __init__(self) -> None:
        self.passed = 0
        self.set = 1000 * DAY

    def clock(self) -> WallClock:
        return WallClock(lambda: self.set + self.passed, lambda: self.passed)


def test_a_clock_that_is_set_back_ten_minutes_stops_nothing(caplog) -> None:
    machine = Machine()
    clock = machine.clock()
    before = clock.now()
    machine.set -= 10 * MINUTE
    machine.passed += 1
    with caplog.at_level(logging.WARNING):
        assert clock.now() == before + 1
        machine.passed += 5 * MINUTE
        assert clock.now() == before + 1 + 5 * MINUTE
    (told,) = caplog.messages
    assert "set back by 600 s" in told


def test_a_clock_that_is_set_forward_is_followed_and_not_back_again(caplog) -> None:
    machine = Machine()
    clock = machine.clock()
    before = clock.now()
    with caplog.at_level(logging.WARNING):
        machine.set += DAY
        assert clock.now() == before + DAY
        machine.set -= DAY
        machine.passed += 7
        assert clock.now() == before + DAY + 7
    assert ["set forward" in told for told in caplog.messages] == [True, False]


def test_a_clock_that_is_trimmed_is_followed_without_a_word(caplog) -> None:
    machine = Machine()
    clock = machine.clock()
    before = clock.now()
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            machine.set += 1000
            clock.now()
    assert clock.now() == before + 3000
    assert not caplog.messages


def test_a_wait_ends_soon_after_the_clock_was_put_forward(monkeypatch) -> None:
    machine = Machine()
    clock = machine.clock()
    waits = []

    def wait(self, seconds=None) -> None:
        waits.append(seconds)
        machine.passed += int(seconds * 1e6)
        machine.set += 60 * MINUTE

    monkeypatch.setattr(CancelToken, "wait", wait)
    clock.wait_until(clock.now() + 60 * MINUTE, CancelToken())
    # Nobody waits for longer than a second without a look at the clock.
    assert waits == [1.0]


@given(st.lists(st.tuples(st.integers(0, DAY), st.integers(-DAY, DAY))))
def test_time_goes_on_by_at_least_what_passes_and_never_lags_behind_the_clock(steps) -> None:
    machine = Machine()
    clock = machine.clock()
    now = clock.now()
    for passed, change in steps:
        machine.passed += passed
        machine.set += change
        later = clock.now()
        assert later >= now + passed
        assert later >= machine.set + machine.passed
        now = later
