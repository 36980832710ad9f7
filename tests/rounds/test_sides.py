"""Side inputs in streaming."""

from __future__ import annotations

import apache_beam as beam
import pytest
from apache_beam.pvalue import AsDict, AsIter, AsList, AsMultiMap, AsSingleton
from apache_beam.testing import test_stream
from apache_beam.transforms import trigger
from apache_beam.transforms.userstate import (
    CombiningValueStateSpec,
    TimeDomain,
    TimerSpec,
    on_timer,
)
from apache_beam.transforms.window import (
    FixedWindows,
    GlobalWindows,
    IntervalWindow,
    SlidingWindows,
    TimestampedValue,
)

from sparkdrain.stages.shards.task_options import TaskOptions
from tests.support.recorded import emitted, emitted_in_batch, emitted_in_rounds
from tests.support.restrictions import UpTo

pytestmark = pytest.mark.filterwarnings("ignore")


def same_as_in_batch(build, **settings):
    expected = emitted_in_batch(build)
    assert expected, "the test shows nothing"
    assert sorted(map(repr, emitted(build, **settings))) == sorted(map(repr, expected))


def timed(p, name, times):
    return (
        p
        | name >> beam.Create(times)
        | f"{name} time" >> beam.Map(lambda t: TimestampedValue(t, t))
    )


@pytest.mark.parametrize(
    ("view", "read"),
    [
        (AsIter, lambda _, side: sorted(side)),
        (AsList, lambda _, side: (len(side), sorted(side))),
        (AsDict, lambda _, side: sorted(side.items())),
        (AsMultiMap, lambda k, side: sorted(side[k])),
        (AsMultiMap, lambda _, side: sorted(side["nobody"])),
    ],
)
@pytest.mark.parametrize("pairs", [[("a", 1), ("b", 2), ("c", 3), ("b", 4)], []])
def test_a_view_gives_what_it_gives_in_batch(view, read, pairs):
    def build(p):
        side = p | "side" >> beam.Create(pairs or [("x", 0)]) | beam.Filter(lambda _: bool(pairs))
        return p | beam.Create(["a", "b"]) | beam.Map(read, view(side))

    same_as_in_batch(build)


def test_a_singleton_and_its_default():
    def build(p):
        nothing = p | "nothing" >> beam.Create([7]) | beam.Filter(lambda _: False)
        seven = p | "seven" >> beam.Create([7])
        return (
            p
            | beam.Create([1, 2])
            | beam.Map(
                lambda a, b, c: (a, b, c),
                AsSingleton(seven),
                AsSingleton(nothing, default_value="none"),
            )
        )

    same_as_in_batch(build)


def test_one_pcollection_as_several_views_at_several_levels():
    def build(p):
        side = p | "side" >> beam.Create([("a", 1)])
        return (
            p
            | beam.Create(["a"])
            | beam.Map(
                lambda k, one, many, mapped: (k, one, list(many), list(mapped[k])),
                AsSingleton(side),
                AsIter(side),
                mapped=AsMultiMap(side),
            )
            | beam.Map(lambda seen, pairs: (*seen, pairs), AsDict(side))
        )

    same_as_in_batch(build)


def test_side_inputs_made_with_side_inputs():
    def build(p):
        first = p | "first" >> beam.Create([1, 2])
        second = first | "second" >> beam.Map(lambda n, s: n * sum(s), AsIter(first))
        third = second | "third" >> beam.CombineGlobally(sum)
        return (
            p
            | beam.Create([0])
            | beam.Map(
                lambda _, a, b, c: (sorted(a), sorted(b), c),
                AsList(first),
                AsList(second),
                AsSingleton(third),
            )
        )

    same_as_in_batch(build)


def test_two_readers_of_a_pcollection_whose_results_meet_get_each_element_once():
    def build(p):
        main = p | beam.Create([1, 2, 3])
        one = main | "one" >> beam.Map(
            lambda n, s: ("one", n, s), AsSingleton(p | "1" >> beam.Create([1]))
        )
        two = main | "two" >> beam.Map(
            lambda n, s: ("two", n, s), AsSingleton(p | "2" >> beam.Create([2]))
        )
        plain = main | "plain" >> beam.Map(lambda n: ("plain", n))
        return (one, two, plain) | beam.Flatten()

    same_as_in_batch(build)


@pytest.mark.parametrize(
    ("main", "side"),
    [
        (FixedWindows(10), FixedWindows(10)),
        (FixedWindows(5), FixedWindows(20)),
        (SlidingWindows(20, 10), FixedWindows(10)),
        (SlidingWindows(20, 10), SlidingWindows(30, 5)),
        (FixedWindows(10), GlobalWindows()),
        (GlobalWindows(), GlobalWindows()),
    ],
)
@pytest.mark.parametrize("keyed", [False, True])
def test_the_window_of_an_element_decides_what_it_sees(main, side, keyed):
    def read(element, side, window=beam.DoFn.WindowParam):
        seen = sorted(side["k"]) if keyed else sorted(side)
        return element, str(window), seen

    def build(p):
        values = timed(p, "side", [1, 2, 11, 12, 31]) | "sw" >> beam.WindowInto(side)
        view = AsMultiMap(values | beam.Map(lambda t: ("k", t))) if keyed else AsIter(values)
        return timed(p, "main", [1, 9, 15, 25, 39]) | beam.WindowInto(main) | beam.Map(read, view)

    same_as_in_batch(build)


def test_elements_after_a_group_by_key_read_the_side_input_of_their_window():
    def build(p):
        side = timed(p, "side", [1, 2, 11]) | "sw" >> beam.WindowInto(FixedWindows(10))
        return (
            timed(p, "main", [1, 9, 15])
            | beam.WindowInto(FixedWindows(10))
            | beam.WithKeys("k")
            | beam.GroupByKey()
            | beam.Map(lambda pair, s: (pair[0], sorted(pair[1]), sorted(s)), AsList(side))
        )

    same_as_in_batch(build)


# --- when a side input is ready --------------------------------------------------------------


def script():
    return test_stream.TestStream(output_tags=["main", "side"])


def at(*times):
    return [TimestampedValue(time, time) for time in times]


def pairs_at(*pairs):
    return [TimestampedValue(pair, pair[1]) for pair in pairs]


def both(p, stream):
    streams = p | stream
    return streams["main"], streams["side"]


def windows_of(stream, main=10, side=10, read=lambda n, s: (n, sorted(s))):
    """Main elements with the side elements of their window, in each round that had some."""

    def build(p):
        numbers, others = both(p, stream)
        view = AsList(others | "side windows" >> beam.WindowInto(FixedWindows(side)))
        return numbers | beam.WindowInto(FixedWindows(main)) | beam.Map(read, view)

    return build


def in_rounds(build, **settings):
    return [kept for kept in emitted_in_rounds(build, **settings) if kept]


def test_elements_wait_for_the_end_of_their_window_of_the_side_input():
    stream = (
        script()
        .add_elements(at(1, 12), tag="main")
        .advance_watermark_to(30, tag="main")
        .add_elements(at(3, 4, 15), tag="side")
        .advance_watermark_to(10, tag="side")
        .add_elements(at(16), tag="side")
        .advance_watermark_to(20, tag="side")
    )
    assert in_rounds(windows_of(stream)) == [[(1, [3, 4])], [(12, [15, 16])]]


def test_elements_of_a_window_keep_their_order():
    stream = (
        script()
        .add_elements(at(3, 1), tag="main")
        .add_elements(at(5), tag="main")
        .advance_watermark_to(10, tag="side")
        .add_elements(at(2), tag="main")
    )
    assert in_rounds(windows_of(stream), slots=1) == [[(3, []), (1, []), (5, [])], [(2, [])]]


def test_what_waits_holds_the_frontier_and_says_why():
    seen = []

    def watch(rounds):
        seen.extend(
            hold for reports in rounds.rounds for report in reports for hold in report.holds
        )

    stream = (
        script()
        .add_elements(at(7), tag="main")
        .advance_watermark_to(100, tag="main")
        .advance_processing_time(1)
        .advance_watermark_to(10, tag="side")
    )
    assert in_rounds(windows_of(stream), watch=watch) == [[(7, [])]]
    assert ("side input", 7_000_000) in {(hold.reason, hold.time) for hold in seen}


def test_what_waited_is_not_late_for_windows_behind():
    stream = (
        script()
        .add_elements(at(7, 8), tag="main")
        .advance_watermark_to(100, tag="main")
        .advance_watermark_to(10, tag="side")
    )

    def build(p):
        waited = windows_of(stream, read=lambda n, s: ("k", n))(p)
        return waited | beam.GroupByKey() | beam.MapTuple(lambda k, ns: (k, sorted(ns)))

    assert emitted(build) == [("k", [7, 8])]


def test_an_element_in_several_windows_waits_in_those_that_are_not_ready():
    stream = (
        script()
        .add_elements(at(12), tag="main")
        .add_elements(at(1, 15), tag="side")
        .advance_watermark_to(20, tag="side")
        .advance_watermark_to(30, tag="side")
    )

    def build(p):
        numbers, others = both(p, stream)
        view = AsList(others | "side windows" >> beam.WindowInto(FixedWindows(10)))
        main = numbers | beam.WindowInto(SlidingWindows(20, 10))
        return main | beam.Map(lambda n, s, w=beam.DoFn.WindowParam: (n, int(w.end), s), view)

    assert in_rounds(build) == [[(12, 20, [15])], [(12, 30, [])]]


def test_all_side_inputs_must_be_ready():
    stream = (
        test_stream.TestStream(output_tags=["main", "one", "two"])
        .add_elements(at(1), tag="main")
        .add_elements(at(2), tag="one")
        .advance_watermark_to(10, tag="one")
        .add_elements(at(3), tag="two")
        .advance_processing_time(1)
        .add_elements(at(4), tag="two")
        .advance_watermark_to(20, tag="two")
    )

    def build(p):
        streams = p | stream
        one = streams["one"] | "w1" >> beam.WindowInto(FixedWindows(10))
        two = streams["two"] | "w2" >> beam.WindowInto(FixedWindows(20))
        main = streams["main"] | "w0" >> beam.WindowInto(FixedWindows(10))
        return main | beam.Map(lambda n, a, b: (n, a, sorted(b)), AsList(one), AsList(two))

    assert in_rounds(build) == [[(1, [2], [3, 4])]]


# --- side inputs that change -------------------------------------------------------------------


def changing(stream, mode, view=AsSingleton, fires=None, read=lambda n, s: (n, s)):
    def build(p):
        numbers, others = both(p, stream)
        others = others | "side windows" >> beam.WindowInto(
            GlobalWindows(),
            trigger=fires or trigger.Repeatedly(trigger.AfterCount(1)),
            accumulation_mode=mode,
        )
        return numbers | beam.Map(read, view(others))

    return build


def updates():
    return (
        script()
        .add_elements(at(1), tag="main")
        .add_elements(["old"], tag="side")
        .add_elements(at(2), tag="main")
        .add_elements(["new"], tag="side")
        .add_elements(at(3), tag="main")
    )


def test_a_side_input_is_ready_with_its_first_pane_and_the_latest_one_counts():
    build = changing(updates(), trigger.AccumulationMode.DISCARDING)
    assert in_rounds(build) == [[(1, "old")], [(2, "old")], [(3, "new")]]


def test_the_end_of_the_global_window_is_not_waited_for():
    fires = trigger.AfterWatermark(early=trigger.AfterCount(1))
    build = changing(updates(), trigger.AccumulationMode.DISCARDING, fires=fires)
    assert in_rounds(build) == [[(1, "old")], [(2, "old")], [(3, "new")]]


def test_early_panes_that_are_discarded_are_parts_of_their_window():
    stream = (
        script()
        .add_elements(at(1), tag="main")
        .add_elements(at(2), tag="side")
        .add_elements(at(3), tag="side")
        .advance_watermark_to(10, tag="side")
    )

    def build(p):
        numbers, others = both(p, stream)
        side = others | "side windows" >> beam.WindowInto(
            FixedWindows(10),
            trigger=trigger.AfterWatermark(early=trigger.AfterCount(1)),
            accumulation_mode=trigger.AccumulationMode.DISCARDING,
        )
        main = numbers | beam.WindowInto(FixedWindows(10))
        return main | beam.Map(lambda n, s: (n, sorted(s)), AsList(side))

    assert in_rounds(build) == [[(1, [2, 3])]]


def test_panes_that_accumulate_add_to_a_side_input():
    build = changing(updates(), trigger.AccumulationMode.ACCUMULATING, AsList)
    assert in_rounds(build) == [[(1, ["old"])], [(2, ["old"])], [(3, ["old", "new"])]]


def test_a_dict_that_changes():
    stream = (
        script()
        .add_elements([("a", 1), ("b", 2), ("a", 3)], tag="side")
        .add_elements(at(1), tag="main")
        .add_elements([("b", 4)], tag="side")
        .add_elements(at(2), tag="main")
    )

    def read(n, side):
        return n, list(side["a"]), list(side["b"])

    build = changing(stream, trigger.AccumulationMode.DISCARDING, AsMultiMap, read=read)
    assert in_rounds(build) == [[(1, [1, 3], [2])], [(2, [], [4])]]


def test_a_side_input_that_fires_in_processing_time():
    stream = (
        script()
        .add_elements(at(1), tag="main")
        .add_elements(["old"], tag="side")
        .advance_processing_time(5)
        .add_elements(at(2), tag="main")
        .advance_processing_time(5)
        .add_elements(["new"], tag="side")
        .add_elements(at(3), tag="main")
        .advance_processing_time(11)
        .add_elements(at(4), tag="main")
    )
    fires = trigger.Repeatedly(trigger.AfterProcessingTime(10))
    build = changing(stream, trigger.AccumulationMode.DISCARDING, fires=fires)
    assert in_rounds(build) == [[(1, "old"), (2, "old")], [(3, "old")], [(4, "new")]]


# --- what else stands behind a gate ------------------------------------------------------------


class Count(beam.DoFn):
    SEEN = CombiningValueStateSpec("seen", sum)

    def process(self, element, side, seen=beam.DoFn.StateParam(SEEN)):
        seen.add(1)
        yield (*element, seen.read(), sorted(side))


def test_elements_wait_in_front_of_a_stateful_dofn():
    stream = (
        script()
        .add_elements(pairs_at(("a", 1), ("b", 2), ("a", 11)), tag="main")
        .add_elements(pairs_at(("x", 3), ("x", 15)), tag="side")
        .advance_watermark_to(10, tag="side")
        .add_elements(pairs_at(("a", 4)), tag="main")
        .advance_watermark_to(20, tag="side")
    )

    def build(p):
        numbers, others = both(p, stream)
        view = AsList(others | "side windows" >> beam.WindowInto(FixedWindows(10)))
        return numbers | beam.WindowInto(FixedWindows(10)) | beam.ParDo(Count(), view)

    first, second, third = in_rounds(build)
    assert sorted(first) == [("a", 1, 1, [("x", 3)]), ("b", 2, 1, [("x", 3)])]
    assert second == [("a", 4, 2, [("x", 3)])]
    assert third == [("a", 11, 1, [("x", 15)])]


class TellAtEnd(beam.DoFn):
    END = TimerSpec("end", TimeDomain.WATERMARK)
    SEEN = CombiningValueStateSpec("seen", sum)

    def process(
        self,
        element,
        side,
        window=beam.DoFn.WindowParam,
        end=beam.DoFn.TimerParam(END),
        seen=beam.DoFn.StateParam(SEEN),
    ):
        seen.add(len(side))
        end.set(window.max_timestamp())

    @on_timer(END)
    def tell(self, key=beam.DoFn.KeyParam, seen=beam.DoFn.StateParam(SEEN)):
        yield key, seen.read()


def test_timers_do_not_overtake_what_waits():
    stream = (
        script()
        .add_elements(pairs_at(("a", 1), ("a", 2)), tag="main")
        .advance_watermark_to(50, tag="main")
        .add_elements(pairs_at(("x", 3), ("x", 4), ("x", 5)), tag="side")
        .advance_watermark_to(10, tag="side")
    )

    def build(p):
        numbers, others = both(p, stream)
        view = AsList(others | "side windows" >> beam.WindowInto(FixedWindows(10)))
        return numbers | beam.WindowInto(FixedWindows(10)) | beam.ParDo(TellAtEnd(), view)

    assert in_rounds(build) == [[("a", 6)]]


class CountUp(beam.DoFn):
    def process(self, element, side, tracker=beam.DoFn.RestrictionParam(UpTo())):
        position = tracker.current_restriction().start
        while tracker.try_claim(position):
            yield element, position, sorted(side)
            position += 1


def test_elements_wait_in_front_of_a_splittable_dofn():
    stream = (
        script()
        .add_elements(at(3), tag="main")
        .advance_watermark_to(50, tag="main")
        .advance_processing_time(1)
        .add_elements(at(1), tag="side")
        .advance_watermark_to(10, tag="side")
    )

    def build(p):
        numbers, others = both(p, stream)
        view = AsList(others | "side windows" >> beam.WindowInto(FixedWindows(10)))
        return numbers | beam.WindowInto(FixedWindows(10)) | beam.ParDo(CountUp(), view)

    assert sorted(emitted(build)) == [(3, n, [1]) for n in range(3)]


def test_groups_wait_for_side_inputs():
    stream = (
        script()
        .add_elements(pairs_at(("a", 1), ("a", 2), ("a", 12)), tag="main")
        .advance_watermark_to(20, tag="main")
        .advance_processing_time(1)
        .add_elements(at(3, 15), tag="side")
        .advance_watermark_to(10, tag="side")
        .advance_watermark_to(20, tag="side")
    )

    def build(p):
        pairs, others = both(p, stream)
        view = AsList(others | "side windows" >> beam.WindowInto(FixedWindows(10)))
        return (
            pairs
            | beam.WindowInto(FixedWindows(10))
            | beam.GroupByKey()
            | beam.Map(lambda pair, s: (sorted(pair[1]), s), view)
        )

    assert in_rounds(build) == [[([1, 2], [3])], [([12], [15])]]


# --- amounts -----------------------------------------------------------------------------------

SMALL = TaskOptions(block_bytes=4 << 10, memory_bytes=1 << 20, compiled=True)


def test_many_elements_that_wait_are_let_through_in_rounds_within_the_budget():
    stream = script()
    for start in range(0, 20_000, 4_000):
        values = [(f"{n:>200}", n) for n in range(start, start + 4_000)]
        stream = stream.add_elements([TimestampedValue(v, n % 10) for v, n in values], tag="main")
    stream = stream.add_elements(at(3), tag="side").advance_watermark_to(10, tag="side")
    build = windows_of(stream, read=lambda v, s: (int(v), s))
    kept = in_rounds(build, options=SMALL, elements=3_000, slots=1)
    assert [n for some in kept for n, _ in some] == list(range(20_000))
    assert all(side == [3] for some in kept for _, side in some)
    assert len(kept) > 2


def test_a_large_side_input_does_not_stay_in_memory():
    def build(p):
        side = (
            p
            | "side" >> beam.Create([1])
            | beam.FlatMap(lambda _: ((n % 100, f"{n:>400}") for n in range(20_000)))
        )
        return (
            p
            | beam.Create([0, 57])
            | beam.Map(
                lambda k, mapped, every: (k, sum(map(int, mapped[k])), sum(1 for _ in every)),
                AsMultiMap(side),
                AsIter(side),
            )
        )

    def watch(rounds):
        reports = [report for reports in rounds.rounds for report in reports]
        assert max(report.sent_bytes for report in reports) > 8_000_000
        # What is kept back until a round is over would be all of it, had it not gone to disk.
        assert max(report.prepared_bytes for report in reports) < 1_000_000

    expected = [(k, sum(range(k, 20_000, 100)), 20_000) for k in (0, 57)]
    assert sorted(emitted(build, options=SMALL, watch=watch)) == expected


# --- late ones -----------------------------------------------------------------------------------


def late_main(lateness):
    stream = (
        script()
        .add_elements(at(3), tag="side")
        .advance_watermark_to(100, tag="side")
        .add_elements(at(1), tag="main")
        .advance_watermark_to(25, tag="main")
        .add_elements(at(2), tag="main")
    )

    def build(p):
        numbers, others = both(p, stream)
        view = AsList(others | "side windows" >> beam.WindowInto(FixedWindows(10)))
        main = numbers | beam.WindowInto(FixedWindows(10), allowed_lateness=lateness)
        return main | beam.Map(lambda n, s: (n, s), view)

    return build


def dropped_in(rounds):
    return sum(report.dropped for report in rounds.schedule.reports())


@pytest.mark.parametrize(
    ("lateness", "expected", "dropped"), [(0, [(1, [3])], 1), (20, [(1, [3]), (2, [3])], 0)]
)
def test_elements_whose_window_expired_are_dropped_as_its_side_input_is(
    lateness, expected, dropped
):
    counts = []
    seen = emitted(late_main(lateness), watch=lambda rounds: counts.append(dropped_in(rounds)))
    assert (seen, counts) == (expected, [dropped])


@pytest.mark.parametrize(
    ("lateness", "main", "expected", "dropped"),
    [(0, 1, [(1, [3, 4])], 0), (0, 15, [], 2), (20, 15, [(1, [3, 4])], 0)],
)
def test_late_elements_of_a_side_input_are_added_if_allowed_or_as_long_as_they_may_be_read(
    lateness, main, expected, dropped
):
    stream = (
        script()
        .add_elements(at(3), tag="side")
        .advance_watermark_to(15, tag="side")
        .advance_watermark_to(main, tag="main")
        .add_elements(at(4), tag="side")
        .add_elements(at(1), tag="main")
    )

    def build(p):
        numbers, others = both(p, stream)
        side = others | "side windows" >> beam.WindowInto(
            FixedWindows(10), allowed_lateness=lateness
        )
        main = numbers | beam.WindowInto(FixedWindows(10), allowed_lateness=lateness)
        return main | beam.Map(lambda n, s: (n, sorted(s)), AsList(side))

    counts = []
    seen = emitted(build, watch=lambda rounds: counts.append(dropped_in(rounds)))
    assert (seen, counts) == (expected, [dropped])


def test_windows_that_time_has_left_behind_are_forgotten():
    stream = script()
    for start in range(0, 100, 10):
        stream = (
            stream.add_elements(at(start + 1), tag="side")
            .add_elements(at(start + 2), tag="main")
            .advance_watermark_to(start + 10, tag="side")
            .advance_watermark_to(start + 10, tag="main")
        )
    left = []

    def watch(rounds):
        for slot in rounds.slots():
            slot.overlay.commit()
            for stream in slot.sides.streams.values():
                windows = [IntervalWindow(start, start + 10) for start in range(0, 100, 10)]
                encoded = map(stream.window_coder.encode, windows)
                left.extend(w for w in encoded if list(stream.content.values(w, b"", list)))

    assert len(emitted(windows_of(stream), watch=watch)) == 10
    assert left == []


DONE = []


class Finalized(beam.DoFn):
    def process(self, element, finalizer=beam.DoFn.BundleFinalizerParam):
        finalizer.register(lambda: DONE.append(element))
        yield element


def test_finalizers_beside_a_reader_of_side_inputs_run_though_these_change():
    DONE.clear()

    def build(p):
        numbers, _ = both(p, updates())
        side = numbers | "side windows" >> beam.WindowInto(
            GlobalWindows(),
            trigger=trigger.Repeatedly(trigger.AfterCount(1)),
            accumulation_mode=trigger.AccumulationMode.DISCARDING,
        )
        apart = numbers | beam.Reshuffle() | beam.ParDo(Finalized())
        read = numbers | beam.Map(lambda n, s: (n, s), AsSingleton(side))
        return (apart, read) | beam.Flatten()

    assert len(emitted(build)) == 6
    assert sorted(DONE) == [1, 2, 3]
