"""A stream that ends has the results that Beam's driver for bounded input has."""

from __future__ import annotations

from collections import defaultdict

from apache_beam.transforms import trigger
from apache_beam.transforms.core import Windowing
from apache_beam.transforms.trigger import create_trigger_driver
from hypothesis import given, settings
from hypothesis import strategies as st
from round_driver import Rounds, seen_pane
from windowings import combiners, elements, modes, triggers, window_fns

from sparkdrain.panes.times import END
from sparkdrain.shuffle.group_by_key import in_millis

lateness = st.sampled_from([0, 7])


def in_batch(driven, data):
    """Panes of bounded input, without what they say of themselves."""
    by_key = defaultdict(list)
    for key, value, seconds in data:
        by_key[key].append(driven.context(value, seconds).with_value(value))
    panes = []
    for key, values in by_key.items():
        driver = create_trigger_driver(driven.windowing, is_batch=True)
        for pane in driver.process_entire_key(key, values):
            time = in_millis(pane.timestamp)
            info = pane.pane_info
            panes.append(seen_pane(key, list(pane.value[1]), pane.windows[0], time, info))
    return panes


def result(panes, *, timed):
    return sorted(
        (key, end, values, time if timed else 0) for key, end, _, _, values, time in panes
    )


@settings(max_examples=60, deadline=None)
@given(st.builds(Windowing, window_fns, triggers, modes, combiners, lateness), elements)
def test_one_round_has_the_panes_of_bounded_input(tmp_path_factory, windowing, data):
    driven = Rounds(windowing, tmp_path_factory.getbasetemp())
    panes = driven.round(data, END) if data else []
    expected = in_batch(driven, data)
    # Beam's driver for one global pane puts it at the beginning of time.
    timed = not expected or type(windowing.windowfn).__name__ != "GlobalWindows"
    found, wanted = result(panes, timed=timed), result(expected, timed=timed)
    for pane in wanted:
        found.remove(pane)
    # What no trigger took comes when its window expires; bounded input leaves it behind.
    left = sorted(pane for pane in panes if pane[3][4])
    assert all(pane in result(left, timed=timed) for pane in found)
    if isinstance(windowing.triggerfn, (trigger.DefaultTrigger, trigger.AfterWatermark)):
        assert found == []


@settings(max_examples=40, deadline=None)
@given(
    window_fns,
    combiners,
    lateness,
    st.lists(elements, max_size=4),
    st.sampled_from([trigger.DefaultTrigger(), trigger.AfterWatermark(), trigger._Never()]),
)
def test_rounds_have_the_results_of_bounded_input(
    tmp_path_factory, window_fn, combiner, late, data, fire
):
    mode = trigger.AccumulationMode.DISCARDING
    windowing = Windowing(window_fn, fire, mode, combiner, late)
    driven = Rounds(windowing, tmp_path_factory.getbasetemp())
    panes = [pane for arrived in data for pane in driven.round(arrived)] + driven.round(
        frontier=END
    )
    expected = in_batch(driven, [element for arrived in data for element in arrived])
    timed = type(window_fn).__name__ != "GlobalWindows"
    assert result(panes, timed=timed) == result(expected, timed=timed)
