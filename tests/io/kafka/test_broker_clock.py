"""Brokers are asked for their time now and then, and no reader waits for it."""

from __future__ import annotations

import threading
import time

import pytest
from apache_beam.utils.timestamp import Timestamp

from sparkdrain.errors import BadSetup
from sparkdrain.io.kafka.broker_clock import BrokerClock
from sparkdrain.io.kafka.client import ServiceTime
from sparkdrain.io.kafka.errors import KafkaRefused, KafkaUnreachable
from sparkdrain.io.kafka.watermarks import Watermarks

NOW = 1_800_000_000.0
SECONDS = 30.0


class Brokers:
    """Answers with what it has, or raises it."""

    def __init__(self):
        self.passed, self.wall = 0.0, NOW
        self.answers = ServiceTime(NOW)
        self.asked, self.opened, self.closed = 0, 0, 0
        self.may_answer = threading.Event()
        self.may_answer.set()

    def clock(self):
        return BrokerClock(self.open, lambda: ["t"], lambda: self.wall, lambda: self.passed)

    def open(self):
        self.opened += 1
        return self

    def time(self, topics):
        assert topics == ["t"]
        assert self.may_answer.wait(SECONDS)
        self.asked += 1
        if isinstance(self.answers, Exception):
            raise self.answers
        return self.answers

    def close(self):
        self.closed += 1


@pytest.fixture
def brokers():
    return Brokers()


def known(clock, watermarks=None, reached=None, moment=0.0):
    """What is known once there is an answer."""
    end = time.monotonic() + SECONDS
    while (at_least := clock.at_least(moment, watermarks or Watermarks(), reached)) is None:
        assert time.monotonic() < end
    return at_least


def asked_after(brokers, clock, seconds):
    """How often brokers are asked if a reader looks twice after so many seconds."""
    before = brokers.asked
    brokers.passed += seconds
    for _ in range(2):
        clock.at_least(0.0, Watermarks(), None)
        thread = clock._asking._thread
        if thread is not None:
            thread.join(SECONDS)
    return brokers.asked - before


def test_the_time_is_that_of_the_brokers_however_wrong_the_workers_clock_is(brokers):
    brokers.wall = NOW + 600
    assert known(brokers.clock()) == NOW


@pytest.mark.parametrize(
    ("answer", "early", "late"),
    [
        (ServiceTime(NOW), 4.9, 5.0),
        (ServiceTime(NOW, "it does not tell"), 14.9, 15.0),
        (KafkaUnreachable("away"), 14.9, 15.0),
        (KafkaRefused("a password"), 599.0, 600.0),
        (BadSetup("not installed"), 599.0, 600.0),
    ],
)
def test_brokers_are_asked_once_in_a_while_however_often_readers_look(brokers, answer, early, late):
    brokers.answers = answer
    clock = brokers.clock()
    known(clock)
    assert brokers.asked == 1
    assert asked_after(brokers, clock, early) == 0
    assert asked_after(brokers, clock, late - early) == 1
    assert brokers.opened == 1


def test_no_reader_waits_for_an_answer(brokers):
    brokers.may_answer.clear()
    clock = brokers.clock()
    before = time.monotonic()
    assert [clock.at_least(0.0, Watermarks(), None) for _ in range(20)] == [None] * 20
    assert time.monotonic() - before < SECONDS / 6
    brokers.may_answer.set()
    assert known(clock) == NOW


def test_what_brokers_have_told_counts_while_they_are_away(brokers):
    clock = brokers.clock()
    known(clock)
    brokers.answers, brokers.wall = KafkaUnreachable("away"), NOW + 9999
    assert asked_after(brokers, clock, 5.0) == 1
    assert known(clock, moment=5.0) == pytest.approx(NOW + 4.5)


def test_a_right_that_is_granted_later_is_made_use_of(brokers):
    brokers.answers = ServiceTime(NOW - 50, "no right")
    clock = brokers.clock()
    assert known(clock) == NOW - 50
    brokers.answers = ServiceTime(NOW + 15)
    assert asked_after(brokers, clock, 15.0) == 1
    assert known(clock, moment=15.0) == NOW + 15


def test_a_reader_that_goes_on_in_another_process_knows_what_the_last_one_knew(brokers):
    brokers.answers = ServiceTime(NOW - 500, "no right")
    watermarks = Watermarks(5.0, 10.0)
    assert known(brokers.clock(), watermarks, Timestamp(NOW - 65)) == NOW - 60


@pytest.mark.parametrize("answer", [ServiceTime(None, "no right: grant it"), KafkaRefused("no")])
def test_without_any_record_idle_partitions_are_as_far_behind_as_the_clock_may_be_ahead(
    brokers, answer, caplog
):
    brokers.answers = answer
    clock = brokers.clock()
    assert known(clock, Watermarks(clock_ahead=600.0)) == NOW - 600
    known(clock, Watermarks(clock_ahead=600.0))
    (told,) = caplog.messages
    reason = "no right: grant it" if isinstance(answer, ServiceTime) else "no"
    assert told.startswith(f"{reason}. So idle partitions of t are complete up to 600 s ago only")
    assert "Watermarks(clock_ahead=0)" in told


def test_a_workers_clock_that_is_trusted_counts_and_is_not_warned_about(brokers, caplog):
    brokers.answers = ServiceTime(NOW - 5000, "no right")
    assert known(brokers.clock(), Watermarks(clock_ahead=0.0)) == NOW
    assert caplog.messages == []


def test_a_topic_that_is_written_to_is_not_warned_about(brokers, caplog):
    brokers.answers = ServiceTime(NOW - 10, "no right")
    assert known(brokers.clock()) == NOW - 10
    assert caplog.messages == []


def test_a_clock_that_is_closed_opens_nothing(brokers):
    clock = brokers.clock()
    known(clock)
    clock.close()
    assert brokers.closed == 1
    asked_after(brokers, clock, 1000.0)
    assert brokers.opened == brokers.closed == 1
