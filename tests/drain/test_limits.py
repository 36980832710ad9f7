from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkdrain.drain.limits import LimitKind, Limits
from sparkdrain.drain.monitor import Deadline

MILLISECONDS = st.integers(-5, 100_000)


@given(MILLISECONDS, MILLISECONDS, MILLISECONDS)
def test_every_kind_has_its_own_limit_whatever_the_others_are(element, watermark, drain):
    limits = Limits.of(element, watermark, drain, "fail")
    for kind, given_ms in zip(LimitKind, (element, watermark, drain), strict=True):
        assert limits.seconds(kind) == (given_ms / 1000 if given_ms > 0 else None)


@pytest.mark.parametrize("others", itertools.product([0, 7], repeat=2))
@pytest.mark.parametrize("which", range(3))
def test_a_limit_that_is_off_stays_off_whichever_others_are_on(which, others):
    chosen = list(others)
    chosen.insert(which, 0)
    assert Limits.of(*chosen, "fail").due(list(LimitKind)[which]) is None


def test_what_goes_on_is_told_again_when_it_has_taken_twice_as_long():
    limits = Limits.of(0, 0, 3000, "wait")
    assert [limits.due(LimitKind.DRAIN, told) for told in range(4)] == [3, 6, 12, 24]


def test_what_is_said_names_the_option_the_limit_and_the_policy():
    limits = Limits.of(0, 2500, 0, "cancel")
    assert limits.told(LimitKind.WATERMARK, "slot 3 of 'Count'", 4.04, "It is in f().") == (
        "slot 3 of 'Count' has been firing windows and timers in one round for 4.0 s, and "
        "--drain_watermark_limit_ms allows 2.5 s (--drain_limit_policy=cancel). It is in f()."
    )


class Time:
    """Passes only where somebody waits; ends at ``until``."""

    def __init__(self, until: float) -> None:
        self.now, self.until = 100.0, 100.0 + until
        self.watches, self.stopped = [], False

    def __call__(self) -> float:
        return self.now

    def wait(self, timeout: float) -> bool:
        assert timeout > 0
        self.now += timeout
        return self.stopped or self.now > self.until

    def set(self) -> None:
        self.stopped = True

    def start_thread(self, watch):
        self.watches.append(watch)
        return lambda: None


def exceeded(limits: Limits, until: float = 100, taken: float = 0.0) -> list:
    time, heard = Time(until), []
    deadline = Deadline(limits, heard.append, time, time, time.start_thread)
    deadline.start(taken)
    for watch in time.watches:
        watch()
    deadline.stop()
    deadline.stop()
    return heard


def test_a_drain_that_takes_too_long_is_told_once():
    assert exceeded(Limits.of(0, 0, 5000, "fail")) == [5.0]
    assert exceeded(Limits.of(0, 0, 5000, "cancel")) == [5.0]


def test_with_the_policy_to_wait_it_is_told_again_and_again():
    assert exceeded(Limits.of(0, 0, 5000, "wait")) == [5.0, 10.0, 20.0, 40.0, 80.0]


def test_a_drain_that_ends_in_time_is_not_told_of():
    assert exceeded(Limits.of(0, 0, 5000, "fail"), until=4.9) == []


def test_what_it_has_taken_in_lives_before_this_one_counts():
    assert exceeded(Limits.of(0, 0, 5000, "fail"), until=4, taken=3) == [5.0]
    assert exceeded(Limits.of(0, 0, 5000, "fail"), taken=9) == [9.0]


def test_limits_of_other_kinds_do_not_end_a_drain():
    assert exceeded(Limits.of(1, 1, 0, "fail")) == []


def test_one_that_was_never_started_can_be_stopped():
    Deadline(Limits.of(0, 0, 1, "fail"), print).stop()
