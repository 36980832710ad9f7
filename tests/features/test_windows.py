from __future__ import annotations

import itertools

import apache_beam as beam
import pytest
from apache_beam.coders import coders
from apache_beam.transforms import trigger, window
from apache_beam.transforms.window import TimestampCombiner
from apache_beam.utils.timestamp import MIN_TIMESTAMP
from apache_beam.utils.windowed_value import PaneInfoTiming
from engines import compare, gives

TIMES = [0, 1, 3, 4, 5, 9, 10, 11, 12, 25]


def _timed(p, times=TIMES):
    return (
        p
        | beam.Create(times)
        | beam.Map(lambda t: window.TimestampedValue(("even" if t % 2 == 0 else "odd", t), t))
    )


def _told(element, t=beam.DoFn.TimestampParam, w=beam.DoFn.WindowParam):
    key, values = element
    values = sorted(values) if hasattr(values, "__iter__") else values
    return key, values, float(t), str(w)


WINDOWS = {
    "fixed": window.FixedWindows(5),
    "fixed with offset": window.FixedWindows(5, offset=2),
    "sliding": window.SlidingWindows(10, 5),
    "sliding with gaps": window.SlidingWindows(3, 5),
    "sliding unevenly": window.SlidingWindows(7, 3),
    "sessions": window.Sessions(2),
    "global": window.GlobalWindows(),
}
COMBINERS = {
    "end of window": TimestampCombiner.OUTPUT_AT_EOW,
    "earliest": TimestampCombiner.OUTPUT_AT_EARLIEST,
    "latest": TimestampCombiner.OUTPUT_AT_LATEST,
}


GROUPINGS = {
    "group": beam.GroupByKey,
    "combine": lambda: beam.CombinePerKey(sum),
}


def test_grouping_in_every_kind_of_window(pipeline):
    def build(p):
        timed = _timed(p)
        branches = []
        for case in itertools.product(WINDOWS, COMBINERS, GROUPINGS):
            windows, combiner, grouping = case
            windowed = timed | f"windows {case}" >> beam.WindowInto(
                WINDOWS[windows], timestamp_combiner=COMBINERS[combiner]
            )
            told = windowed | f"{case}" >> GROUPINGS[grouping]() | f"told {case}" >> beam.Map(_told)
            named = told | f"named {case}" >> beam.Map(lambda told, case: (*case, *told), case)
            branches.append(named | f"global {case}" >> beam.WindowInto(window.GlobalWindows()))
        return branches | beam.Flatten()

    compare(pipeline, build)


class _Parity(window.NonMergingWindowFn):
    """One window for even seconds and one for odd ones, of a type of its own."""

    def assign(self, context):
        return [_ParityWindow(int(context.timestamp) % 2)]

    def get_window_coder(self):
        return _ParityCoder()


class _ParityWindow(window.BoundedWindow):
    def __init__(self, parity):
        super().__init__(100 + parity)
        self.parity = parity

    def __eq__(self, other):
        return isinstance(other, _ParityWindow) and self.parity == other.parity

    def __hash__(self):
        return self.parity

    def __repr__(self):
        return f"parity {self.parity}"


class _ParityCoder(beam.coders.Coder):
    def encode(self, value):
        return bytes([value.parity])

    def decode(self, encoded):
        return _ParityWindow(encoded[0])

    def is_deterministic(self):
        return True


def test_windows_of_the_users_own_type(pipeline):
    def build(p):
        return _timed(p) | beam.WindowInto(_Parity()) | beam.GroupByKey() | beam.Map(_told)

    gives(
        pipeline,
        build,
        [
            ("even", [0, 4, 10, 12], 99.999, "parity 0"),
            ("odd", [1, 3, 5, 9, 11, 25], 100.999, "parity 1"),
        ],
    )


class _ToNearestTen(window.WindowFn):
    """Merges what lies in the same ten seconds."""

    def assign(self, context):
        start = int(context.timestamp)
        return [window.IntervalWindow(start, start + 1)]

    def merge(self, merge_context):
        tens = {}
        for w in merge_context.windows:
            tens.setdefault(int(w.start) // 10, []).append(w)
        for windows in tens.values():
            if len(windows) > 1:
                merge_context.merge(
                    windows,
                    window.IntervalWindow(
                        min(w.start for w in windows), max(w.end for w in windows)
                    ),
                )

    def get_window_coder(self):
        return beam.coders.coders.IntervalWindowCoder()


def test_merging_windows_of_the_users_own(pipeline):
    def build(p):
        timed = _timed(p)
        branches = []
        for name, combiner in COMBINERS.items():
            windowed = timed | f"windows {name}" >> beam.WindowInto(
                _ToNearestTen(), timestamp_combiner=combiner
            )
            told = windowed | name >> beam.GroupByKey() | f"told {name}" >> beam.Map(_told)
            named = told | f"named {name}" >> beam.Map(lambda told, name: (name, *told), name)
            branches.append(named | f"global {name}" >> beam.WindowInto(window.GlobalWindows()))
        return branches | beam.Flatten()

    merged = {
        "even": [[0, 4], [10, 12]],
        "odd": [[1, 3, 5, 9], [11], [25]],
    }
    gives(
        pipeline,
        build,
        [
            (name, key, times, at(times), f"[{times[0]}.0, {times[-1] + 1}.0)")
            for key, groups in merged.items()
            for times in groups
            for name, at in (
                ("end of window", lambda times: max(times) + 0.999),
                ("earliest", lambda times: float(min(times))),
                ("latest", lambda times: float(max(times))),
            )
        ],
    )


def test_windows_changed_between_two_groupings(pipeline):
    def build(p):
        by_five = _timed(p) | "five" >> beam.WindowInto(window.FixedWindows(5))
        sums = by_five | "sum" >> beam.CombinePerKey(sum)
        by_ten = sums | "ten" >> beam.WindowInto(window.FixedWindows(10))
        return by_ten | "most" >> beam.CombinePerKey(max) | beam.Map(_told)

    compare(pipeline, build)


def test_sessions_after_sessions(pipeline):
    def build(p):
        sessions = _timed(p) | "small" >> beam.WindowInto(window.Sessions(2))
        counts = sessions | beam.combiners.Count.PerKey()
        return (
            counts
            | "large" >> beam.WindowInto(window.Sessions(8))
            | "sum" >> (beam.CombinePerKey(sum))
            | beam.Map(_told)
        )

    compare(pipeline, build)


def test_an_exchange_leaves_windows_and_times_alone(pipeline):
    def reified(element, t=beam.DoFn.TimestampParam, w=beam.DoFn.WindowParam):
        return element, float(t), str(w)

    def build(p):
        windowed = _timed(p) | beam.WindowInto(window.SlidingWindows(10, 5))
        return windowed | beam.Reshuffle() | beam.Map(reified)

    compare(pipeline, build)


@pytest.mark.parametrize("mode", ["discarding", "accumulating"])
def test_a_repeated_count_trigger_fires_each_time_and_loses_nothing(pipeline, mode):
    accumulating = mode == "accumulating"

    def build(p):
        windowed = (
            p
            | beam.Create([("k", n) for n in range(6)])
            | beam.WindowInto(
                window.GlobalWindows(),
                trigger=trigger.Repeatedly(trigger.AfterCount(2)),
                accumulation_mode=(
                    trigger.AccumulationMode.ACCUMULATING
                    if accumulating
                    else trigger.AccumulationMode.DISCARDING
                ),
            )
        )
        sizes = windowed | beam.GroupByKey() | beam.Map(lambda kv: len(list(kv[1])))
        together = max if accumulating else sum
        again = sizes | "again" >> beam.WindowInto(window.GlobalWindows())
        return again | beam.CombineGlobally(together)

    gives(pipeline, build, [6])


def test_the_default_trigger_gives_one_pane_on_time_and_last(pipeline):
    def told(element, pane=beam.DoFn.PaneInfoParam):
        return element[0], pane.is_first, pane.is_last, pane.timing, pane.index

    def build(p):
        windowed = _timed(p, [1, 2, 6]) | beam.WindowInto(window.FixedWindows(5))
        return windowed | beam.GroupByKey() | beam.Map(told)

    gives(
        pipeline,
        build,
        [(key, True, True, PaneInfoTiming.ON_TIME, 0) for key in ("odd", "even", "even")],
    )


def test_early_firings_add_up_to_the_window(pipeline):
    def build(p):
        windowed = _timed(p) | beam.WindowInto(
            window.FixedWindows(10),
            trigger=trigger.AfterWatermark(early=trigger.AfterCount(1)),
            accumulation_mode=trigger.AccumulationMode.DISCARDING,
        )
        counts = windowed | beam.combiners.Count.PerKey()
        again = counts | "again" >> beam.WindowInto(window.FixedWindows(10))
        return again | beam.CombinePerKey(sum) | beam.Map(_told)

    gives(
        pipeline,
        build,
        [
            ("even", 2, 9.999, "[0.0, 10.0)"),
            ("odd", 4, 9.999, "[0.0, 10.0)"),
            ("even", 2, 19.999, "[10.0, 20.0)"),
            ("odd", 1, 19.999, "[10.0, 20.0)"),
            ("odd", 1, 29.999, "[20.0, 30.0)"),
        ],
    )


def test_elements_out_of_order_are_never_late_in_a_bounded_job(pipeline):
    def build(p):
        windowed = _timed(p, [25, 0, 12, 3]) | beam.WindowInto(
            window.FixedWindows(5), allowed_lateness=0
        )
        return windowed | beam.combiners.Count.PerKey() | beam.Map(_told)

    compare(pipeline, build)


def test_times_at_both_ends(pipeline):
    def build(p):
        times = [MIN_TIMESTAMP, window.GlobalWindow().max_timestamp()]
        timed = (
            p
            | beam.Create([0, 1])
            | beam.Map(lambda n: window.TimestampedValue(("k", n), times[n]))
        )
        return (
            timed
            | beam.Reshuffle()
            | beam.GroupByKey()
            | beam.MapTuple(lambda k, v: (k, sorted(v)))
        )

    gives(pipeline, build, [("k", [0, 1])])


def test_a_dofn_sees_each_window_of_an_element_only_if_it_asks(pipeline):
    class Ask(beam.DoFn):
        def process(self, element, w=beam.DoFn.WindowParam):
            yield "asked", float(w.start)

    class Look(beam.DoFn):
        def process(self, element):
            yield "not asked", element[1]

    def build(p):
        windowed = _timed(p, [7]) | beam.WindowInto(window.SlidingWindows(10, 5))
        asked = windowed | beam.ParDo(Ask())
        looked = windowed | beam.ParDo(Look())
        together = (asked, looked) | beam.Flatten()
        return together | beam.combiners.Count.PerElement()

    compare(pipeline, build)


def test_an_element_in_several_windows_counts_in_new_windows_once_for_each(pipeline):
    def build(p):
        sliding = _timed(p, range(6)) | "sliding" >> beam.WindowInto(window.SlidingWindows(6, 2))
        fixed = sliding | "fixed" >> beam.WindowInto(window.FixedWindows(3))
        return fixed | beam.GroupByKey() | beam.Map(_told)

    compare(pipeline, build)


class Odd(window.NonMergingWindowFn):
    """Has no window for even times."""

    def assign(self, context):
        if context.timestamp.micros % 2_000_000 == 0:
            message = "an even time"
            raise LookupError(message)
        return [window.IntervalWindow(context.timestamp, context.timestamp + 1)]

    def get_window_coder(self):
        return coders.IntervalWindowCoder()


def odd(element):
    return window.TimestampedValue(element, 3)


def test_a_window_function_that_refuses_a_time_names_the_step_that_gave_it(pipeline):
    times = pipeline | "Begin" >> beam.Create([1]) | "Odd" >> beam.Map(odd)
    windowed = times | beam.WindowInto(Odd()) | "Before" >> beam.Map(str)
    _ = windowed | "Make" >> beam.Map(lambda x: window.TimestampedValue(x, 4))
    with pytest.raises(Exception, match=r"an even time.*while running 'Make'"):
        pipeline.run().wait_until_finish()
