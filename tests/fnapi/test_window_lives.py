"""How long a slot keeps the state of windows for a harness in another process."""

from __future__ import annotations

import pytest
from apache_beam.coders.coders import IntervalWindowCoder
from apache_beam.transforms.window import IntervalWindow

from sparkdrain.fnapi.lives import WindowLives
from sparkdrain.harness.harness import StateTerms
from sparkdrain.harness.limits import EVERYTHING, UpTo
from timers_state import Domain, Overlay, RoundStore

WINDOW = IntervalWindowCoder().get_impl()
EARLY, LATE = (WINDOW.encode(IntervalWindow(start, start + 10)) for start in (0, 10))
STATE = 7


@pytest.fixture
def overlay(tmp_path):
    overlay = Overlay(RoundStore(tmp_path / "state"), 1 << 20)
    yield overlay
    overlay.close()


@pytest.fixture
def lives(overlay):
    return WindowLives(
        StateTerms(overlay, STATE, lambda window: window.max_timestamp().micros + 1), WINDOW
    )


def _written(lives, *windows):
    for window in windows:
        lives.keep(b"key", window)
        lives.scope(b"key").bag(b"bag", window).append(b"value")


def _has(lives, window):
    return list(lives.scope(b"key").bag(b"bag", window).segments()) != []


def _up_to(seconds):
    return UpTo(seconds * 1_000_000, 0, EVERYTHING.budget)


def test_a_window_that_is_over_is_forgotten_and_others_are_not(lives):
    _written(lives, EARLY, LATE)
    assert lives.expire(_up_to(9.9))
    assert _has(lives, EARLY)
    assert lives.expire(_up_to(10))
    assert not _has(lives, EARLY)
    assert _has(lives, LATE)


def test_a_window_lasts_until_its_last_timer_has_fired(lives):
    _written(lives, EARLY)
    timers = lives.scope(b"key").timers(Domain.PROCESSING)
    timers.set(5, b"family", b"", EARLY)
    lives.expire(_up_to(10))
    assert _has(lives, EARLY)
    timers.pop_due(5)
    lives.end([(b"key", EARLY)])
    assert not _has(lives, EARLY)


def test_a_window_that_has_not_expired_outlasts_its_timers(lives):
    _written(lives, EARLY)
    lives.end([(b"key", EARLY)])
    assert _has(lives, EARLY)


def test_nothing_is_left_at_the_end_of_time(lives, overlay):
    _written(lives, EARLY, LATE)
    assert lives.expire(EVERYTHING)
    assert not _has(lives, EARLY)
    assert overlay.first_time(STATE, Domain.EXPIRY) is None
