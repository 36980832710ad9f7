"""Drain: user code sees what is there because of it, and is told when it is drained."""

from __future__ import annotations

import apache_beam as beam
import pytest
from apache_beam.coders import VarIntCoder
from apache_beam.transforms import trigger, userstate
from apache_beam.transforms.window import FixedWindows, GlobalWindow, GlobalWindows
from apache_beam.utils.timestamp import Timestamp
from apache_beam.utils.windowed_value import WindowedValue
from test_keyed_sorted import STEP, require_time_sorted_input

from sparkdrain.drain import caused_by_drain
from sparkdrain.errors import TruncatedInput
from sparkdrain.io.stable import StableParDo
from sparkdrain.rounds.driver.durable import DurableJob
from sparkdrain.rounds.slots import service
from tests.support.at_once import AtOnce
from tests.support.drained import emitted_when_drained
from tests.support.recorded import emitted, emitted_in_batch
from tests.support.restrictions import Count, Poll
from tests.support.scripts import Mark, pairs_in_rounds


class Mark_(beam.DoFn):
    """Adds whether what it sees is there because of the drain."""

    def process(self, element):
        yield element, caused_by_drain()


def summed(*steps, **windowing):
    make = pairs_in_rounds(*steps, **windowing)
    return lambda p: make(p) | beam.CombinePerKey(sum) | beam.ParDo(Mark_())


STEPS = [("a", 1, 1)], Mark(15), [("a", 2, 16), ("b", 3, 17)], Mark(18)


def test_a_window_that_fires_because_of_the_drain_is_caused_by_it():
    before, after = emitted_when_drained(summed(*STEPS, windows=FixedWindows(10)), 5)
    assert before == [(("a", 1), False)]
    assert sorted(after) == [(("a", 2), True), (("b", 3), True)]


def test_nothing_is_in_a_job_that_ends_by_itself():
    build = summed(*STEPS, windows=FixedWindows(10))
    assert {mark for _, mark in emitted(build)} == {False}
    assert {mark for _, mark in emitted_in_batch(lambda p: once(p) | beam.ParDo(Mark_()))} == {
        False
    }


def once(pipeline):
    return pipeline | beam.Create([1, 2])


def test_the_mark_goes_through_shuffles_and_into_combined_values():
    make = pairs_in_rounds(*STEPS, windows=FixedWindows(10))

    def build(p):
        first = make(p) | beam.CombinePerKey(sum)
        return (
            first
            | beam.Reshuffle()
            | beam.Map(lambda pair: ("all", pair[1]))
            | "again" >> beam.CombinePerKey(sum)
            | beam.ParDo(Mark_())
        )

    before, after = emitted_when_drained(build, 5)
    assert before == [(("all", 1), False)]
    assert after == [(("all", 5), True)]


def test_the_mark_goes_through_a_shuffle_that_puts_nothing_together():
    make = pairs_in_rounds(*STEPS, windows=FixedWindows(10))

    def build(p):
        return make(p) | beam.CombinePerKey(sum) | beam.Reshuffle() | beam.ParDo(Mark_())

    before, after = emitted_when_drained(build, 5)
    assert before == [(("a", 1), False)]
    assert sorted(after) == [(("a", 2), True), (("b", 3), True)]


def test_elements_that_were_admitted_are_not_caused_wherever_they_are():
    """They come in the round of the cut, through a restriction that goes on to its end."""
    make = pairs_in_rounds(*STEPS)

    def build(p):
        return make(p) | beam.Reshuffle() | beam.ParDo(Mark_())

    before, after = emitted_when_drained(build, 4)
    assert {mark for _, mark in before + after} == {False}
    assert len(before + after) == 3


def test_admitted_elements_are_not_caused_where_another_stage_of_the_level_was_drained_first():
    def build(p):
        parts = [
            p
            | f"range {n}" >> beam.Create([(100 * n, 100 * n + 5 + 20 * n)], reshuffle=False)
            | f"count {n}" >> beam.ParDo(Count())
            | f"shuffle {n}" >> beam.Reshuffle()
            for n in range(3)
        ]
        return parts | beam.Flatten() | beam.ParDo(Mark_())

    before, after = emitted_when_drained(build, 2, slots=1, elements=6)
    assert len(before + after) == 5 + 25 + 45
    assert {mark for _, mark in after} == {False}


class AtEnd(beam.DoFn):
    SEEN = userstate.CombiningValueStateSpec("seen", VarIntCoder(), sum)
    END = userstate.TimerSpec("end", userstate.TimeDomain.WATERMARK)
    CLOCK = userstate.TimerSpec("clock", userstate.TimeDomain.REAL_TIME)

    def process(
        self,
        element,
        time=beam.DoFn.TimestampParam,
        end=beam.DoFn.TimerParam(END),
        clock=beam.DoFn.TimerParam(CLOCK),
    ):
        end.set(time + 5)
        clock.set(Timestamp(10**6))
        yield "element", caused_by_drain()

    @userstate.on_timer(END)
    def ended(self, time=beam.DoFn.TimestampParam):
        yield f"ended {time.seconds()}", caused_by_drain()

    @userstate.on_timer(CLOCK)
    def rang(self):
        yield "rang", caused_by_drain()


def test_timers_that_fire_because_of_the_drain_are_caused_by_it_and_others_are_not():
    make = pairs_in_rounds([("a", 1, 1)], Mark(4), [("b", 1, 100)], windows=GlobalWindows())

    def build(p):
        return make(p) | beam.ParDo(AtEnd())

    before, after = emitted_when_drained(build, 4)
    assert before == [("element", False)] * 2
    assert sorted(after) == [
        ("ended 105", True),
        ("ended 6", True),
        ("rang", True),
        ("rang", True),
    ]


def test_what_was_due_before_the_cut_and_had_no_time_is_not_caused():
    elements = [(f"{n}", 1, 1) for n in range(60)]
    make = pairs_in_rounds(elements, Mark(50), windows=GlobalWindows())

    def build(p):
        return make(p) | beam.ParDo(AtEnd()) | beam.Filter(lambda told: told[0] != "element")

    before, after = emitted_when_drained(build, 3, elements=10, slots=1)
    told = before + after
    assert 0 < len(before) < 60, "the test means to cut in the middle"
    assert sorted(mark for what, mark in told if what == "ended 6") == [False] * 60
    assert [mark for what, mark in told if what == "rang"] == [True] * 60


def test_a_pane_that_a_marked_element_completes_is_marked():
    make = pairs_in_rounds(*STEPS, windows=FixedWindows(10))

    def build(p):
        return (
            make(p)
            | beam.CombinePerKey(sum)
            | beam.Map(lambda pair: ("all", pair[1])).with_output_types(tuple[str, int])
            | "global"
            >> beam.WindowInto(
                GlobalWindows(),
                trigger=trigger.Repeatedly(trigger.AfterCount(1)),
                accumulation_mode=trigger.AccumulationMode.ACCUMULATING,
            )
            | "again" >> beam.CombinePerKey(sum)
            | beam.ParDo(Mark_())
        )

    before, after = emitted_when_drained(build, 5, slots=1)
    assert before == [(("all", 1), False)]
    assert {mark for _, mark in after} == {True}
    assert after[-1] == (("all", 6), True)


def test_marked_elements_that_wait_for_a_side_input_keep_their_mark():
    main = pairs_in_rounds([("a", 1, 1)], [("b", 5, 12)], Mark(11), windows=FixedWindows(10))

    def build(p):
        sums = main(p) | beam.CombinePerKey(sum)
        # One number in five seconds; while the job is drained, one in a round.
        numbers = p | beam.Create([(0, 30, 5)]) | beam.ParDo(Poll())
        other = beam.pvalue.AsList(numbers | "side" >> beam.WindowInto(FixedWindows(10)))
        return sums | beam.Map(lambda pair, xs: (*pair, len(xs)), xs=other) | beam.ParDo(Mark_())

    before, after = emitted_when_drained(build, 4, slots=1)
    assert before == []
    assert sorted(after) == [(("a", 1, 10), False), (("b", 5, 10), True)]


def test_a_side_input_that_the_drain_makes_arrives_and_marks_nobody():
    side = pairs_in_rounds([("a", 1, 1)], [("b", 5, 12)], Mark(11), windows=FixedWindows(10))

    def build(p):
        sums = beam.pvalue.AsList(side(p) | beam.CombinePerKey(sum))
        numbers = p | beam.Create([(0, 30, 5)]) | beam.ParDo(Poll())
        main = numbers | "main" >> beam.WindowInto(FixedWindows(10))
        return main | beam.Map(lambda n, xs: (n, *xs), xs=sums) | beam.ParDo(Mark_())

    before, after = emitted_when_drained(build, 4, slots=1)
    made = [*before, *after]
    assert {seen for seen, _ in made} == {
        *((n, ("a", 1)) for n in range(10)),
        *((n, ("b", 5)) for n in range(10, 20)),
        *((n,) for n in range(20, 30)),
    }
    assert {marked for _, marked in made} == {False}


def test_restrictions_of_marked_elements_are_marked_over_all_of_their_rounds():
    make = pairs_in_rounds([("a", 2, 6), ("b", 3, 7)], Mark(8), windows=FixedWindows(10))

    def build(p):
        return (
            make(p)
            | beam.CombinePerKey(sum)
            | beam.Map(lambda pair: (100 * pair[1], 100 * pair[1] + 30))
            | beam.ParDo(Count())
            | beam.ParDo(Mark_())
        )

    numbers = {}
    before, after = emitted_when_drained(
        build,
        3,
        slots=1,
        elements=4,
        attempts=9,
        fail=Sometimes(),
        watch=lambda rounds: numbers.update(rounds=rounds.schedule.number),
    )
    assert before == []
    assert sorted(after) == [(n, True) for n in (*range(200, 230), *range(300, 330))]
    assert numbers["rounds"] > 8


class Sometimes:
    """Every third round of a drain is lost, once."""

    def __init__(self):
        self._lost = set()

    def __call__(self, header):
        number = header.number
        if header.orders.drain and number % 3 == 0 and number not in self._lost:
            self._lost.add(number)
            message = "lost"
            raise TruncatedInput(message)


# --- the hook -------------------------------------------------------------------------------------


class Keeps(beam.DoFn):
    """Hands things out by threes, and the rest when it is drained."""

    def __init__(self, at=100):
        self._at = at

    def setup(self):
        self._kept = []
        self._drained = 0

    def process(self, element):
        assert not self._drained
        self._kept.append(element)
        if len(self._kept) == 3:
            yield ("three", *self._kept)
            self._kept = []

    def on_drain(self):
        self._drained += 1
        rest = ("drained", self._drained, caused_by_drain(), *self._kept)
        yield WindowedValue(rest, Timestamp(self._at), (GlobalWindow(),))


class FinishesToo(Keeps):
    def finish_bundle(self):
        yield WindowedValue("finished", Timestamp(1), (GlobalWindow(),))


ONE_BY_ONE = tuple([("k", n, n)] for n in range(1, 6))


def test_a_dofn_is_told_once_when_nothing_more_can_come_and_may_emit():
    make = pairs_in_rounds(*ONE_BY_ONE)

    def build(p):
        return make(p) | beam.Map(lambda pair: pair[1]) | beam.ParDo(Keeps())

    before, after = emitted_when_drained(build, 6, slots=1)
    assert before == [("three", 1, 2, 3)]
    assert after == [("drained", 1, True, 4, 5)]


def test_a_job_that_ends_by_itself_tells_nobody():
    make = pairs_in_rounds(*ONE_BY_ONE)

    def build(p):
        return make(p) | beam.Map(lambda pair: pair[1]) | beam.ParDo(Keeps())

    assert emitted(build, slots=1) == [("three", 1, 2, 3)]


def test_the_hook_comes_before_the_end_of_the_bundle():
    make = pairs_in_rounds([("k", 1, 1)])
    _, after = emitted_when_drained(lambda p: make(p) | beam.ParDo(FinishesToo()), 2, slots=1)
    assert after == [("drained", 1, True, ("k", 1)), "finished"]


@pytest.mark.parametrize("slots", [1, 3])
def test_what_the_hook_emits_is_on_time_behind_a_shuffle_and_in_other_hooks(slots):
    make = pairs_in_rounds(*ONE_BY_ONE, Mark(60))
    dropped = []

    def build(p):
        return (
            make(p)
            | beam.Map(lambda pair: pair[1])
            | beam.ParDo(Keeps())
            | beam.Map(lambda rest: (rest[0], 1)).with_output_types(tuple[str, int])
            | beam.WindowInto(FixedWindows(10))
            | beam.CombinePerKey(sum)
        )

    def look(rounds):
        dropped.extend(report.dropped for report in rounds.schedule.reports())

    before, after = emitted_when_drained(build, 7, slots=slots, watch=look)
    told = dict(before + after)
    assert told["drained"] == 1 if slots == 1 else told["drained"] >= 1
    assert set(dropped) == {0}


def test_a_hook_of_a_round_that_failed_is_called_again_on_another_instance():
    failed = []

    def fail(header):
        # Level 1 is behind the shuffle: the hooks of level 0 were called by then.
        if header.orders.drain and header.level == 1 and len(failed) < 2:
            failed.append(header.number)
            message = "lost"
            raise TruncatedInput(message)

    make = pairs_in_rounds(*ONE_BY_ONE)

    def build(p):
        return (
            make(p)
            | beam.Map(lambda pair: pair[1])
            | beam.ParDo(Keeps())
            | beam.Reshuffle()
            | beam.Map(lambda rest: rest[:3])
        )

    _, after = emitted_when_drained(build, 2, slots=1, fail=fail)
    assert len(failed) == 2
    # What instances keep is gone with a round that failed.
    assert after == [("drained", 1, True)]


def sums_in_order(**settings):
    """Sums of windows, one in a round because of the drain, into what needs them in time order.

    Those of the first keys of a window wait for those of the others.
    """
    elements = [(f"{n % 3}", n, 10 * (n // 3)) for n in range(9)]
    make = pairs_in_rounds(elements, windows=FixedWindows(10))

    def build(p):
        sums = make(p) | beam.CombinePerKey(sum)
        one = sums | beam.MapTuple(lambda _, n: ("all", n)).with_output_types(tuple[str, int])
        return one | STEP >> beam.ParDo(Told())

    before, after = emitted_when_drained(
        build, 2, edit=require_time_sorted_input, elements=1, **settings
    )
    assert before == []
    return after


class Told(beam.DoFn):
    def process(self, element):
        yield element[1], caused_by_drain()


@pytest.mark.parametrize("slots", [1, 2])
def test_marked_elements_that_wait_for_their_time_come_in_order_and_keep_their_mark(slots):
    made = sums_in_order(slots=slots)
    assert [n // 3 for n, _ in made] == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert sorted(made) == [(n, True) for n in range(9)]


def test_admitted_elements_that_wait_for_their_time_are_not_marked():
    make = pairs_in_rounds([("a", n, 50 - n) for n in range(8)], Mark(45.5))

    def build(p):
        return make(p) | STEP >> beam.ParDo(Told())

    before, after = emitted_when_drained(build, 3, edit=require_time_sorted_input, slots=1)
    assert before + after == [(n, False) for n in reversed(range(8))]
    assert len(before) == 3


def test_marked_elements_that_wait_for_a_checkpoint_keep_their_mark(tmp_path, monkeypatch):
    """What has effects outside of the job knows too that they are there because of the drain."""
    monkeypatch.setattr(service, "Uploader", AtOnce)
    make = pairs_in_rounds(*STEPS, windows=FixedWindows(10))

    def build(p):
        sums = make(p) | beam.CombinePerKey(sum)
        return sums | StableParDo(Mark_())

    durable = DurableJob.at(str(tmp_path), "job", "run", {}, 2, 2)
    before, after = emitted_when_drained(build, 5, durable=durable)
    assert sorted(before + after) == [(("a", 1), False), (("a", 2), True), (("b", 3), True)]
