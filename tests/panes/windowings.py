"""Any windowing, and data for rounds."""

from __future__ import annotations

from apache_beam.coders.coders import IntervalWindowCoder
from apache_beam.transforms import trigger, window
from hypothesis import strategies as st
from round_driver import SECOND


class Neighbours(window.WindowFn):
    """Windows as long as the element's value says, merged if they begin in the same ten seconds."""

    def assign(self, context):
        start = context.timestamp
        return [window.IntervalWindow(start, start + 1 + context.element % 7)]

    def merge(self, merge_context):
        tens = {}
        for found in merge_context.windows:
            tens.setdefault(found.start.micros // (10 * SECOND), []).append(found)
        for together in tens.values():
            if len(together) > 1:
                start, end = min(w.start for w in together), max(w.end for w in together)
                merge_context.merge(together, window.IntervalWindow(start, end))

    def get_window_coder(self):
        return IntervalWindowCoder()


counts = st.integers(1, 4).map(trigger.AfterCount)
repeated = counts.map(trigger.Repeatedly)
once = st.one_of(
    counts,
    st.builds(trigger.AfterAny, counts, counts),
    st.builds(trigger.AfterAll, counts, counts),
    st.builds(trigger.AfterEach, counts, counts),
    st.builds(trigger.AfterEach, counts, repeated),
    st.builds(trigger.OrFinally, repeated, counts),
)
by_count = st.one_of(once, once.map(trigger.Repeatedly), st.builds(trigger.Always))
at_end = st.one_of(
    st.builds(trigger.AfterWatermark),
    st.builds(trigger.AfterWatermark, early=by_count),
    st.builds(trigger.AfterWatermark, late=by_count),
    st.builds(trigger.AfterWatermark, early=by_count, late=by_count),
)
triggers = st.one_of(
    st.builds(trigger.DefaultTrigger),
    st.builds(trigger._Never),
    by_count,
    at_end,
    st.builds(trigger.AfterAny, once, st.builds(trigger.AfterWatermark)),
    st.builds(trigger.AfterEach, once, at_end),
    st.builds(lambda t: trigger.Repeatedly(trigger.AfterAny(t, trigger.AfterWatermark())), once),
    st.builds(trigger.AfterAll, counts, st.builds(trigger.AfterWatermark)),
)
fixed = st.builds(window.FixedWindows, st.sampled_from([5, 10]))
sliding = st.builds(window.SlidingWindows, st.just(10), st.just(5))
sessions = st.builds(window.Sessions, st.integers(2, 8))
global_windows = st.builds(window.GlobalWindows)
unmerged = st.one_of(fixed, sliding, global_windows)
neighbours = st.builds(Neighbours)
merged = st.one_of(sessions, neighbours)
window_fns = st.one_of(unmerged, merged)
modes = st.sampled_from(
    [trigger.AccumulationMode.DISCARDING, trigger.AccumulationMode.ACCUMULATING]
)
combiners = st.sampled_from(
    [
        window.TimestampCombiner.OUTPUT_AT_EOW,
        window.TimestampCombiner.OUTPUT_AT_EARLIEST,
        window.TimestampCombiner.OUTPUT_AT_LATEST,
    ]
)
elements = st.lists(
    st.tuples(st.sampled_from("ab"), st.integers(0, 99), st.integers(0, 40)), max_size=8
)
# Frontiers are never where a window ends, where Beam's driver is one microsecond off.
rounds = st.lists(st.tuples(elements, st.integers(0, 15)), min_size=1, max_size=6)


def frontiers(given_rounds):
    frontier = -SECOND // 2
    for data, step in given_rounds:
        frontier += step * SECOND
        yield data, frontier
