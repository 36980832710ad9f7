"""The global window is open at the last moment that it has in any SDK.

In Java that is a whole millisecond, a microsecond behind the last moment in Python. Timers that
Java's DoFns set for the end of the window hold the frontier there until they have fired.
"""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from apache_beam.transforms import trigger
from apache_beam.transforms.core import Windowing
from apache_beam.transforms.window import (
    GlobalWindow,
    GlobalWindows,
    IntervalWindow,
    TimestampCombiner,
)
from apache_beam.utils.timestamp import Timestamp
from round_driver import Rounds

from sparkdrain.panes.times import END, WindowTimes, end_of
from sparkdrain.rounds.sides.doors import Doors
from sparkdrain.rounds.sides.stream import SideStream

IN_PYTHON = GlobalWindow().max_timestamp()
IN_JAVA = Timestamp(micros=9_223_371_950_454_775_000)


def test_javas_last_moment_is_a_microsecond_behind_pythons():
    assert IN_JAVA.micros == IN_PYTHON.micros + 1
    assert end_of(GlobalWindow()) > IN_JAVA.micros
    assert end_of(IntervalWindow(0, 10)) == 10_000_000
    assert WindowTimes(GlobalWindow(), 0).last == IN_PYTHON.micros
    assert WindowTimes(IntervalWindow(0, 10), 0).last == 9_999_999


@pytest.mark.parametrize(
    "fire", [trigger.DefaultTrigger(), trigger.AfterWatermark(), trigger._Never()], ids=repr
)
@pytest.mark.parametrize("combiner", [None, TimestampCombiner.OUTPUT_AT_LATEST])
def test_what_comes_at_the_last_moment_is_in_the_same_pane(tmp_path, fire, combiner):
    mode = trigger.AccumulationMode.DISCARDING
    driven = Rounds(Windowing(GlobalWindows(), fire, mode, combiner), tmp_path)
    for number in (1, 2):
        panes = driven.round([("k", number, IN_JAVA)], IN_JAVA.micros)
        assert panes == []
    (pane,) = driven.round(frontier=END)
    assert list(pane[-2]) == [1, 2]


def test_a_side_input_is_not_over_at_the_last_moment():
    stream = SimpleNamespace(_decode_window=lambda _: GlobalWindow())
    assert SideStream.end_of(stream, b"") > IN_JAVA.micros
    doors = SimpleNamespace(_expires=True, _lateness=0)
    assert not Doors._is_over(doors, GlobalWindow(), IN_JAVA.micros)
    assert Doors._is_over(doors, IntervalWindow(0, 10), 10_000_000)
