"""A slot tells a DoFn in an SDK harness when windows are over, and forgets them then."""

from __future__ import annotations

import pytest
from apache_beam.coders.coders import IntervalWindowCoder
from apache_beam.portability.api import beam_runner_api_pb2
from apache_beam.transforms.window import IntervalWindow
from apache_beam.utils.windowed_value import WindowedValue

from sparkdrain.fnapi.lives import WindowLives
from sparkdrain.fnapi.timers import TimerFamilies
from sparkdrain.harness.harness import StateTerms
from sparkdrain.harness.limits import EVERYTHING, UpTo
from sparkdrain.watermarks.frontier import END
from timers_state import Overlay, RoundStore

CODER = IntervalWindowCoder()
EARLY, LATE = IntervalWindow(0, 10), IntervalWindow(10, 20)
LATENESS = 5_000_000


@pytest.fixture
def overlay(tmp_path):
    overlay = Overlay(RoundStore(tmp_path / "state"), 1 << 20)
    yield overlay
    overlay.close()


@pytest.fixture
def lives(overlay):
    def expiry_of(of):
        return of.max_timestamp().micros + LATENESS

    return WindowLives(StateTerms(overlay, 7, expiry_of), CODER.get_impl())


@pytest.fixture
def families(overlay, lives):
    event_time = beam_runner_api_pb2.TimeDomain.EVENT_TIME
    terms = lives._terms
    return TimerFamilies(terms, lives, {"over": event_time}, CODER, "over", LATENESS)


def _come(families, lives, *windows):
    elements = [WindowedValue("value", 0, (window,)) for window in windows]
    families.has_come(b"key", elements)
    for window in windows:
        lives.scope(b"key").bag(b"bag", CODER.encode(window)).append(b"value")


def _kept(lives, window):
    return [*lives.scope(b"key").bag(b"bag", CODER.encode(window)).segments()] != []


def _up_to(micros):
    return UpTo(micros, 0, EVERYTHING.budget)


def _due(families, micros):
    return [family for family, _ in families.due(_up_to(micros))]


def test_a_dofn_is_told_once_when_a_window_is_over_and_has_its_state_until_then(families, lives):
    _come(families, lives, EARLY, LATE, EARLY)
    over = EARLY.max_timestamp().micros + LATENESS
    assert _due(families, over - 1) == []
    assert _due(families, over) == ["over"]
    assert _kept(lives, EARLY)  # the callback reads it
    families.fired()
    assert lives.expire(_up_to(over))
    assert not _kept(lives, EARLY)
    assert _kept(lives, LATE)
    assert _due(families, over) == []


def test_a_drain_tells_of_all_windows_that_are_open(families, lives):
    _come(families, lives, EARLY, LATE)
    assert _due(families, END) == ["over"]  # the earliest time of a key comes by itself
    families.fired()
    assert _due(families, END) == ["over"]
    families.fired()
    assert lives.expire(_up_to(END))
    assert not _kept(lives, EARLY)
    assert not _kept(lives, LATE)
    assert _due(families, END) == []
