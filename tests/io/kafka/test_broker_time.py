"""What is known of the brokers' time is never later than it is, and goes on as time does."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparkdrain.io.kafka.broker_clock import BrokerTime

# Seconds. What floats lose of seconds since 1970 is less.
LOST = 1e-5
EPOCH = 1_800_000_000.0
moments = st.floats(0.0, 100_000.0)


@dataclass(frozen=True)
class Clock:
    """A clock of another machine, read at moments of this process."""

    base: float
    rate: float

    def at(self, moment):
        return self.base + self.rate * moment


@dataclass(frozen=True)
class Heard:
    """Something that another machine said, and when it was heard."""

    said: float
    heard: float


clocks = st.builds(Clock, st.floats(EPOCH, EPOCH + 1e6), st.floats(0.9, 1.1))
delays = st.builds(lambda said, late: Heard(said, said + late), moments, st.floats(0.0, 90.0))


@settings(max_examples=50)
@given(clocks, st.lists(delays, min_size=1), moments, st.floats(-1e9, 1e9), st.floats(0.0, 1e9))
def test_it_is_not_later_than_the_brokers_clock_wherever_that_of_the_worker_stands(
    clock, answers, moment, wrong, ahead
):
    known = BrokerTime()
    for answer in answers:
        known = known.with_answer(clock.at(answer.said), answer.heard)
    at_least = known.at_least(moment, clock.at(moment) + wrong, ahead)
    assert at_least <= clock.at(moment) + LOST
    last = answers[-1]
    error = last.heard - last.said + 0.25 * abs(moment - last.heard)
    assert at_least >= clock.at(moment) - 1.2 * error - LOST


@settings(max_examples=50)
@given(clocks, delays, st.floats(0.0, 3600.0), moments)
def test_a_clock_of_the_brokers_that_is_set_back_is_believed(clock, answer, back, later):
    known = BrokerTime().with_answer(clock.at(answer.said), answer.heard)
    now = answer.heard + later
    known = known.with_answer(clock.at(now) - back, now)
    assert known.at_least(now, clock.at(now), 0.0) <= clock.at(now) - back + LOST


steady = st.builds(Clock, st.floats(EPOCH, EPOCH + 1e6), st.floats(0.9995, 1.0005))
records = st.lists(st.tuples(moments, st.floats(0.0, 1e6)))


@settings(max_examples=50)
@given(steady, records, moments, st.floats(-1e5, 1.0), st.floats(1.0, 1e6))
def test_records_and_a_clock_that_is_ahead_say_nothing_later_than_it_is(
    clock, seen, moment, wrong, ahead
):
    known = BrokerTime()
    for heard, age in seen:
        known = known.with_record(clock.at(heard) - age, heard)
    wall = clock.at(moment) + wrong * ahead  # up to the whole of it
    assert known.at_least(moment, wall, ahead) <= clock.at(moment) + LOST


@settings(max_examples=50)
@given(steady, records, moments, st.floats(-1e6, 1e6), st.floats(0.0, 1e6), moments)
def test_without_anything_new_it_goes_on(clock, seen, moment, wrong, ahead, passed):
    known = BrokerTime()
    for heard, age in seen:
        known = known.with_record(clock.at(heard) - age, heard)
    before, after = (
        known.at_least(at, EPOCH + at + wrong, ahead) for at in (moment, moment + passed)
    )
    assert after >= before + 0.99 * passed - LOST
    assert before >= EPOCH + moment + wrong - ahead - LOST


def test_the_record_that_says_most_counts():
    known = BrokerTime().with_record(EPOCH, 0.0).with_record(EPOCH + 5, 100.0)
    assert known.at_least(100.0, EPOCH + 1e6, 1e9) == pytest.approx(EPOCH + 99.9)
    known = known.with_record(EPOCH + 150, 100.0)
    assert known.at_least(100.0, EPOCH + 1e6, 1e9) == EPOCH + 150


def test_a_producer_that_is_ahead_does_not_take_idle_partitions_along():
    known = BrokerTime().with_record(EPOCH + 600, 0.0)
    assert known.at_least(0.0, EPOCH, 60.0) == EPOCH


def test_records_without_a_time_have_that_of_the_brokers_if_it_is_known():
    known = BrokerTime().with_record(EPOCH, 0.0)
    assert known.now(10.0, EPOCH + 99) == EPOCH + 99
    assert known.with_answer(EPOCH, 10.0).now(10.0, EPOCH + 99) == EPOCH
