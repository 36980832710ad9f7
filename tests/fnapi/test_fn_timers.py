"""Timers as a harness outside of the slot's process sets them."""

from __future__ import annotations

import pytest
from apache_beam.coders.coders import BytesCoder, IntervalWindowCoder
from apache_beam.coders.coders import _TimerCoder as TimerCoder
from apache_beam.transforms.userstate import TimeDomain, Timer
from apache_beam.transforms.window import IntervalWindow
from apache_beam.utils.timestamp import MAX_TIMESTAMP, Duration, Timestamp
from apache_beam.utils.windowed_value import PANE_INFO_UNKNOWN

from sparkdrain.fnapi.errors import HarnessGarbled
from sparkdrain.fnapi.lives import WindowLives
from sparkdrain.fnapi.timers import TimerFamilies
from sparkdrain.harness.harness import StateTerms
from sparkdrain.harness.limits import EVERYTHING
from timers_state import Domain, Overlay, RoundStore

WINDOW = IntervalWindowCoder()
TIMERS = TimerCoder(BytesCoder(), WINDOW).get_impl()


@pytest.fixture
def overlay(tmp_path):
    overlay = Overlay(RoundStore(tmp_path / "state"), 1 << 20)
    yield overlay
    overlay.close()


def _families(overlay, domain):
    terms = StateTerms(overlay, 7, None)
    lives = WindowLives(terms, WINDOW.get_impl())
    return TimerFamilies(terms, lives, {"end": TimeDomain.to_runner_api(domain)}, WINDOW, "", 0)


def _set(hold):
    windows = (IntervalWindow(0, 10),)
    timer = Timer(b"key", "", windows, False, Timestamp(5), hold, PANE_INFO_UNKNOWN)
    return TIMERS.encode_nested(timer)


def test_a_timer_that_holds_nothing_comes_back_as_it_was_set(overlay):
    timers = _families(overlay, TimeDomain.WATERMARK)
    behind_the_end = MAX_TIMESTAMP + Duration(micros=1000)
    timers.take("end", _set(behind_the_end))
    assert overlay.first_time(7, Domain.HOLD) is None
    ((family, data),) = timers.due(EVERYTHING)
    assert family == "end"
    assert TIMERS.decode_nested(data).hold_timestamp == behind_the_end


@pytest.mark.parametrize("domain", [TimeDomain.REAL_TIME, TimeDomain.WATERMARK])
def test_a_timer_holds_the_time_of_its_outputs_until_it_fires(overlay, domain):
    timers = _families(overlay, domain)
    timers.take("end", _set(Timestamp(3)))
    assert overlay.first_time(7, Domain.HOLD) == Timestamp(3).micros
    ((_, data),) = timers.due(EVERYTHING)
    assert TIMERS.decode_nested(data).hold_timestamp == Timestamp(3)
    assert overlay.first_time(7, Domain.HOLD) is None


@pytest.mark.parametrize("number", [0x10000, -1, 0x7FFFFFFF])
def test_a_timer_of_more_windows_than_bytes_is_refused(overlay, number):
    timers, good = _families(overlay, TimeDomain.WATERMARK), _set(Timestamp(3))
    windows = len(b"\x03key" + b"\x00")
    rubbish = good[:windows] + number.to_bytes(4, "big", signed=True) + good[windows + 4 :]
    with pytest.raises(HarnessGarbled, match="number of windows"):
        timers.take("end", good + rubbish)
