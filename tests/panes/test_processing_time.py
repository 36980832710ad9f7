"""Triggers of processing time, which is whatever the round says."""

from __future__ import annotations

import pytest
from apache_beam.transforms import trigger, window
from apache_beam.transforms.core import Windowing
from apache_beam.transforms.trigger import (
    AfterAll,
    AfterAny,
    AfterCount,
    AfterEach,
    AfterProcessingTime,
    AfterWatermark,
    Repeatedly,
)
from apache_beam.utils.windowed_value import PaneInfoTiming
from round_driver import SECOND, Rounds

EARLY, ON_TIME, LATE = PaneInfoTiming.EARLY, PaneInfoTiming.ON_TIME, PaneInfoTiming.LATE


@pytest.fixture
def rounds(tmp_path):
    def make(fire, windows=None, lateness=0):
        mode = trigger.AccumulationMode.DISCARDING
        windowing = Windowing(windows or window.FixedWindows(10), fire, mode, None, lateness)
        return Rounds(windowing, tmp_path)

    return make


def short(panes):
    return [(pane[4], pane[3][0]) for pane in panes]


def test_a_pane_comes_so_long_after_its_first_element(rounds):
    driven = rounds(Repeatedly(AfterProcessingTime(5)))
    assert driven.round([("k", 1, 1)], now=10 * SECOND) == []
    assert driven.grouping.next_wake() == 15 * SECOND
    assert driven.round([("k", 2, 2)], now=14 * SECOND) == []
    assert not driven.grouping.has_due(driven.frontier, 15 * SECOND - 1)
    assert driven.grouping.has_due(driven.frontier, 15 * SECOND)
    assert short(driven.round(now=15 * SECOND)) == [([1, 2], EARLY)]
    assert driven.grouping.next_wake() is None
    assert driven.round([("k", 3, 3)], now=16 * SECOND) == []
    assert short(driven.round(now=21 * SECOND)) == [([3], EARLY)]


def test_what_waits_for_processing_time_waits_anew_after_another_part_fired(rounds):
    driven = rounds(Repeatedly(AfterAny(AfterCount(2), AfterProcessingTime(10))))
    assert driven.round([("k", 1, 1)], now=0) == []
    assert short(driven.round([("k", 2, 2)], now=5 * SECOND)) == [([1, 2], EARLY)]
    assert driven.round(now=10 * SECOND) == []
    assert driven.round([("k", 3, 3)], now=12 * SECOND) == []
    assert short(driven.round(now=22 * SECOND)) == [([3], EARLY)]
    assert driven.round([("k", 4, 4)], now=30 * SECOND) == []
    assert short(driven.round(now=40 * SECOND)) == [([4], EARLY)]


def test_a_processing_time_later_than_the_window_does_not_end_it(rounds):
    driven = rounds(AfterWatermark(early=AfterProcessingTime(5), late=AfterCount(1)), lateness=90)
    now = 1_700_000_000 * SECOND
    assert driven.round([("k", 1, 1)], now=now) == []
    assert short(driven.round(now=now + 5 * SECOND)) == [([1], EARLY)]
    assert driven.round([("k", 2, 2)], now=now + 6 * SECOND) == []
    assert short(driven.round(frontier=10 * SECOND)) == [([2], ON_TIME)]
    assert driven.grouping.next_wake() is None
    assert short(driven.round([("k", 3, 3)])) == [([3], LATE)]


def test_late_panes_may_wait_for_processing_time(rounds):
    driven = rounds(AfterWatermark(late=AfterProcessingTime(5)), lateness=90)
    assert driven.round([("k", 1, 1)], now=0) == []
    assert short(driven.round(frontier=10 * SECOND)) == [([1], ON_TIME)]
    assert driven.round([("k", 2, 2)], now=20 * SECOND) == []
    assert driven.grouping.next_wake() == 25 * SECOND
    assert driven.round([("k", 3, 3)], now=21 * SECOND) == []
    assert short(driven.round(now=25 * SECOND)) == [([2, 3], LATE)]


def test_a_count_may_be_reached_after_the_time(rounds):
    driven = rounds(Repeatedly(AfterAll(AfterCount(2), AfterProcessingTime(5))))
    assert driven.round([("k", 1, 1)], now=0) == []
    assert driven.round(now=9 * SECOND) == []
    assert driven.grouping.next_wake() is None
    assert short(driven.round([("k", 2, 2)], now=10 * SECOND)) == [([1, 2], EARLY)]


def test_a_time_that_passed_in_vain_does_not_hide_a_later_one(rounds):
    both = AfterAll(AfterProcessingTime(2), AfterCount(9))
    driven = rounds(Repeatedly(AfterAny(both, AfterProcessingTime(5))))
    assert driven.round([("k", 1, 1)], now=0) == []
    assert driven.round(now=2 * SECOND) == []
    assert driven.grouping.next_wake() == 5 * SECOND
    assert short(driven.round(now=5 * SECOND)) == [([1], EARLY)]


def test_each_part_waits_when_it_is_its_turn(rounds):
    driven = rounds(AfterEach(AfterCount(1), AfterProcessingTime(5)))
    assert short(driven.round([("k", 1, 1)], now=0)) == [([1], EARLY)]
    assert driven.grouping.next_wake() is None
    assert driven.round([("k", 2, 2)], now=SECOND) == []
    last = driven.round(now=6 * SECOND)
    assert short(last) == [([2], EARLY)]
    assert last[0][3][4]
    assert driven.round([("k", 3, 3)], now=7 * SECOND) == []
    assert driven.grouping.dropped == 1


def test_sessions_that_merge_wait_for_the_earlier_of_their_times(rounds):
    driven = rounds(Repeatedly(AfterProcessingTime(10)), window.Sessions(10))
    assert driven.round([("k", 1, 0)], now=0) == []
    assert driven.round([("k", 2, 15)], now=5 * SECOND) == []
    assert driven.round([("k", 3, 8)], now=6 * SECOND) == []
    assert short(driven.round(now=10 * SECOND)) == [([1, 2, 3], EARLY)]
    assert driven.grouping.next_wake() is None


def test_a_window_that_expires_does_not_wake_anybody(rounds):
    driven = rounds(Repeatedly(AfterProcessingTime(10)))
    assert driven.round([("k", 1, 1)], now=0) == []
    (pane,) = driven.round(frontier=10 * SECOND)
    assert pane[4] == [1]
    assert pane[3][4]
    assert driven.grouping.next_wake() is None
    assert driven.rows() == []


def test_a_trigger_behind_a_grouping_by_processing_time_fires_with_every_round(rounds):
    behind = AfterProcessingTime(5).get_continuation_trigger()
    driven = rounds(behind)
    assert short(driven.round([("k", 1, 1)], now=0)) == [([1], EARLY)]
    assert short(driven.round([("k", 2, 2), ("k", 3, 3)], now=1)) == [([2, 3], EARLY)]
