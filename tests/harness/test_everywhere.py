from __future__ import annotations

from apache_beam.transforms.core import Windowing
from apache_beam.transforms.window import FixedWindows, GlobalWindow, GlobalWindows, WindowFn
from apache_beam.utils.timestamp import Timestamp

from sparkdrain.harness.compiled.windowing import with_one_global_window


def test_an_element_gets_the_window_that_beam_gives_it_and_always_the_same_one():
    one = with_one_global_window(Windowing(GlobalWindows())).windowfn
    context = WindowFn.AssignContext(Timestamp(7), "element")
    assert list(one.assign(context)) == GlobalWindows().assign(context)
    assert one.assign(context)[0].end == GlobalWindow().end
    assert one.assign(context) is one.assign(context)


def test_the_windowing_it_was_made_of_stays_as_it_is():
    windowing = Windowing(GlobalWindows())
    changed = with_one_global_window(windowing)
    assert type(windowing.windowfn) is GlobalWindows
    assert isinstance(changed.windowfn, GlobalWindows)


def test_other_windows_are_left_alone():
    windowing = Windowing(FixedWindows(10))
    assert with_one_global_window(windowing) is windowing


def test_windows_of_ones_own_that_are_kinds_of_the_global_one_are_left_alone():
    class Named(GlobalWindows):
        pass

    windowing = Windowing(Named())
    assert with_one_global_window(windowing) is windowing
