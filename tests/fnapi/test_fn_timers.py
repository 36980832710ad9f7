"""Timers as a harness outside of the slot's process sets them."""

from __future__ import annotations

from apache_beam.coders.coders import BytesCoder, IntervalWindowCoder
from apache_beam.coders.coders import _TimerCoder as TimerCoder
from apache_beam.transforms.userstate import TimeDomain, Timer
from apache_beam.transforms.window import IntervalWindow
from apache_beam.utils.timestamp import MAX_TIMESTAMP, Duration, Timestamp
from apache_beam.utils.windowed_value import PANE_INFO_UNKNOWN

from sparkdrain.fnapi.lives import WindowLives
from sparkdrain.fnapi.timers import TimerFamilies
from sparkdrain.harness.harness import StateTerms
from sparkdrain.harness.limits import EVERYTHING
from timers_state import Domain, Overlay, RoundStore

WINDOW = IntervalWindowCoder()
TIMERS = TimerCoder(BytesCoder(), WINDOW).get_impl()


def test_a_timer_that_holds_nothing_comes_back_as_it_was_set(tmp_path):
    overlay = Overlay(RoundStore(tmp_path / "state"), 1 << 20)
    terms = StateTerms(overlay, 7, None)
    lives = WindowLives(terms, WINDOW.get_impl())
    timers = TimerFamilies(
        terms, lives, {"end": TimeDomain.to_runner_api(TimeDomain.WATERMARK)}, WINDOW, "", 0
    )
    behind_the_end = MAX_TIMESTAMP + Duration(micros=1000)
    set_ = Timer(
        b"key",
        "",
        (IntervalWindow(0, 10),),
        False,
        Timestamp(5),
        behind_the_end,
        PANE_INFO_UNKNOWN,
    )
    timers.take("end", TIMERS.encode_nested(set_))
    assert overlay.first_time(7, Domain.HOLD) is None
    ((family, data),) = timers.due(EVERYTHING)
    assert family == "end"
    assert TIMERS.decode_nested(data).hold_timestamp == behind_the_end
    overlay.close()
