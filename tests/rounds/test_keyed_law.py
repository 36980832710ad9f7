"""One law: stateful DoFns in rounds make what they make of bounded input.

So it is for whatever does not depend on whether a timer fires before or after an element that is
later than the timer: in a bounded job all elements come first.
"""

from __future__ import annotations

import asyncio
import functools
from dataclasses import replace
from unittest.mock import patch

import apache_beam as beam
from apache_beam.coders import StrUtf8Coder, VarIntCoder
from apache_beam.pvalue import AsIter
from apache_beam.transforms import userstate, window
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.transforms.window import TimestampedValue
from apache_beam.utils.timestamp import Timestamp
from hypothesis import given
from hypothesis import strategies as st

from sparkdrain import Concurrently
from sparkdrain.rounds import carried
from sparkdrain.stages.shards import writers
from tests.support.in_memory_rounds import DEFAULTS
from tests.support.law import law
from tests.support.recorded import emitted, emitted_in_batch
from tests.support.scripts import Mark, Pass, pairs_at_once, pairs_in_rounds
from tests.support.undoing import ATTEMPTS, SEEDS, undoing

WINDOWS = {
    "global": window.GlobalWindows,
    "fixed": lambda: window.FixedWindows(10),
    "sliding": lambda: window.SlidingWindows(12, 4),
}


class Everything(beam.DoFn):
    """Remembers, counts down with timers, adds up to the end of the window and beyond."""

    LAST = userstate.ReadModifyWriteStateSpec("last", VarIntCoder())
    ALL = userstate.BagStateSpec("all", VarIntCoder())
    SUM = userstate.CombiningValueStateSpec("sum", VarIntCoder(), sum)
    DISTINCT = userstate.SetStateSpec("distinct", VarIntCoder())
    BY_TIME = userstate.OrderedListStateSpec("by time", StrUtf8Coder())
    DOWN = userstate.TimerSpec("down", TimeDomain.WATERMARK)
    END = userstate.TimerSpec("end", TimeDomain.WATERMARK)
    LATER = userstate.TimerSpec("later", TimeDomain.REAL_TIME)

    def process(
        self,
        element,
        at=beam.DoFn.TimestampParam,
        w=beam.DoFn.WindowParam,
        last=beam.DoFn.StateParam(LAST),
        every=beam.DoFn.StateParam(ALL),
        total=beam.DoFn.StateParam(SUM),
        distinct=beam.DoFn.StateParam(DISTINCT),
        by_time=beam.DoFn.StateParam(BY_TIME),
        down=beam.DoFn.TimerParam(DOWN),
        end=beam.DoFn.TimerParam(END),
        later=beam.DoFn.TimerParam(LATER),
    ):
        key, number = element
        yield key, f"{number} after {last.read()}"
        last.write(number)
        every.add(number)
        total.add(number)
        distinct.add(number % 5)
        by_time.add((at, str(number)))
        tag = f"{number} at {at}"
        down.set(at + number % 7, dynamic_timer_tag=f"{tag}/{number % 4}")
        down.set(at, dynamic_timer_tag="cleared")
        down.clear(dynamic_timer_tag="cleared")
        if number % 3 == 0:
            later.set(Timestamp(1_000 + number), dynamic_timer_tag=tag)
        if isinstance(w, window.GlobalWindow):
            end.set(Timestamp(1_000))
        else:
            end.set(w.end if number % 2 == 0 else w.max_timestamp())

    @userstate.on_timer(DOWN)
    def on_down(
        self,
        key=beam.DoFn.KeyParam,
        at=beam.DoFn.TimestampParam,
        tag=beam.DoFn.DynamicTimerTagParam,
        down=beam.DoFn.TimerParam(DOWN),
    ):
        yield key, f"down {tag} at {at}"
        name, left = tag.split("/")
        if int(left):
            down.set(at + int(left) - 2, dynamic_timer_tag=f"{name}/{int(left) - 1}")

    @userstate.on_timer(END)
    def on_end(
        self,
        key=beam.DoFn.KeyParam,
        last=beam.DoFn.StateParam(LAST),
        every=beam.DoFn.StateParam(ALL),
        total=beam.DoFn.StateParam(SUM),
        distinct=beam.DoFn.StateParam(DISTINCT),
        by_time=beam.DoFn.StateParam(BY_TIME),
        later=beam.DoFn.TimerParam(LATER),
    ):
        yield key, f"{last.read()} {list(every.read())} {total.read()} {sorted(distinct.read())}"
        yield key, f"{[number for _, number in by_time.read()]}"
        every.clear()
        later.set(Timestamp(2_000), dynamic_timer_tag="end")

    @userstate.on_timer(LATER)
    def on_later(
        self,
        key=beam.DoFn.KeyParam,
        tag=beam.DoFn.DynamicTimerTagParam,
        total=beam.DoFn.StateParam(SUM),
    ):
        yield key, f"later {tag} {total.read() if tag == 'end' else ''}"


class Little(beam.DoFn):
    """Whose keys are records: no lists, no tags, no timers of processing time."""

    FIRST = userstate.ReadModifyWriteStateSpec("first", VarIntCoder())
    EVERY = userstate.BagStateSpec("every", VarIntCoder())
    TOTAL = userstate.CombiningValueStateSpec("total", VarIntCoder(), sum)
    VARIED = userstate.SetStateSpec("varied", VarIntCoder())
    FULL = userstate.TimerSpec("full", TimeDomain.WATERMARK)

    def process(
        self,
        element,
        side,
        w=beam.DoFn.WindowParam,
        first=beam.DoFn.StateParam(FIRST),
        every=beam.DoFn.StateParam(EVERY),
        total=beam.DoFn.StateParam(TOTAL),
        varied=beam.DoFn.StateParam(VARIED),
        full=beam.DoFn.TimerParam(FULL),
    ):
        key, number = element
        if first.read() is None:
            first.write(number)
        every.add(number)
        total.add(number)
        for each in range(0, 40 * number, number % 11 + 1):
            varied.add(each)
        if number % 9 == 8:
            every.clear()
            varied.clear()
            varied.add(number)
        full.set(w.max_timestamp() if w.max_timestamp() < Timestamp(1_000) else Timestamp(1_000))
        yield key, f"{number} of {total.read()}, {sorted(side)}, {sorted(varied.read())}"

    @userstate.on_timer(FULL)
    def on_full(
        self,
        key=beam.DoFn.KeyParam,
        first=beam.DoFn.StateParam(FIRST),
        every=beam.DoFn.StateParam(EVERY),
        total=beam.DoFn.StateParam(TOTAL),
        varied=beam.DoFn.StateParam(VARIED),
    ):
        yield key, f"{first.read()} {list(every.read())} {total.read()} {sorted(varied.read())}"
        if total.read() % 2:
            for state in (first, every, total, varied):
                state.clear()


def told(element, w=beam.DoFn.WindowParam, at=beam.DoFn.TimestampParam):
    return *element, repr(w), float(at)


@st.composite
def scripts(draw):
    """Elements in any order, and a watermark that passes none that is still to come."""
    times = draw(st.lists(st.integers(0, 40), min_size=1, max_size=20))
    rest = [(draw(st.sampled_from("abc")), n, time) for n, time in enumerate(times)]
    steps, mark = [], 0
    while rest:
        size = draw(st.integers(1, len(rest)))
        steps.append(rest[:size])
        rest = rest[size:]
        stepped = draw(st.integers(0, min((time for _, _, time in rest), default=60)))
        if stepped > mark:
            mark = stepped
            steps.append(Mark(mark))
        if draw(st.booleans()):
            steps.append(Pass(draw(st.sampled_from([1, 900, 1005]))))
    return steps


@law(6)
@given(
    scripts(),
    st.sampled_from(sorted(WINDOWS)),
    st.integers(1, 3),
    SEEDS,
    st.sampled_from([0.0, 0.1]),
    st.sampled_from([2, 10_000]),
    st.sampled_from([400_000, 256 << 20]),
)
def test_stateful_dofns_in_rounds_make_what_they_make_of_bounded_input(
    steps, windowing, slots, seed, failing, elements, memory
) -> None:
    def build(source):
        return lambda p: (
            source(*steps, windows=WINDOWS[windowing]())(p)
            | beam.ParDo(Everything())
            | beam.Map(told)
        )

    found = emitted(
        build(pairs_in_rounds),
        slots=slots,
        fail=undoing(seed, failing),
        attempts=ATTEMPTS,
        elements=elements,
        seconds=100,
        options=replace(DEFAULTS, memory_bytes=memory),
    )
    assert sorted(found) == sorted(emitted_in_batch(build(pairs_at_once)))


@law(8)
@given(
    scripts(),
    st.sampled_from(sorted(WINDOWS)),
    st.integers(1, 3),
    SEEDS,
    st.sampled_from([0.0, 0.1]),
    st.sampled_from([2, 10_000]),
    st.sampled_from([4_000, 100_000, 256 << 20]),
    st.sampled_from([1, 2, 4096]),
)
def test_keys_that_are_records_make_what_they_make_of_bounded_input(
    steps, windowing, slots, seed, failing, elements, memory, few
) -> None:
    def build(source):
        def built(p):
            side = (
                p | "side" >> beam.Create([1, 2]) | beam.Map(lambda n: TimestampedValue(n, 9 * n))
            )
            side = side | "windows of side" >> beam.WindowInto(WINDOWS[windowing]())
            pairs = source(*steps, windows=WINDOWS[windowing]())(p)
            return pairs | beam.ParDo(Little(), AsIter(side)) | beam.Map(told)

        return built

    with patch.object(writers, "_few", lambda _: few):  # elements of a key come in many pieces
        found = emitted(
            build(pairs_in_rounds),
            slots=slots,
            fail=undoing(seed, failing),
            attempts=ATTEMPTS,
            elements=elements,
            seconds=100,
            options=replace(DEFAULTS, memory_bytes=memory, compiled=True),
        )
    assert sorted(found) == sorted(emitted_in_batch(build(pairs_at_once)))


def waiting(plain):
    """The same DoFn, which waits amid elements, so that keys could get in each other's way."""

    class Waits(plain):
        @functools.wraps(plain.process)
        async def process(self, element, *args, **kwargs):
            for made in plain.process(self, element, *args, **kwargs):
                await asyncio.sleep(element[1] % 3 / 2_000)
                yield made

    return Waits()


@law(4)
@given(
    scripts(),
    st.sampled_from(sorted(WINDOWS)),
    st.integers(1, 3),
    SEEDS,
    st.sampled_from([0.0, 0.1]),
    st.sampled_from([2, 10_000]),
    st.sampled_from([4_000, 400_000, 256 << 20]),
    st.sampled_from([1, 2, 100]),
    st.booleans(),
)
def test_dofns_that_wait_make_what_plain_ones_make_of_bounded_input(
    steps, windowing, slots, seed, failing, elements, memory, most, carry_over
) -> None:
    def build(source, dofn):
        return lambda p: (
            source(*steps, windows=WINDOWS[windowing]())(p) | beam.ParDo(dofn) | beam.Map(told)
        )

    dofn = Concurrently(waiting(Everything), max_in_flight=most, carry_over=carry_over and most > 1)
    with patch.object(carried, "_PATIENCE_SECONDS", 0.0):
        found = emitted(
            build(pairs_in_rounds, dofn),
            slots=slots,
            fail=undoing(seed, failing),
            attempts=ATTEMPTS,
            elements=elements,
            seconds=100,
            options=replace(DEFAULTS, memory_bytes=memory),
        )
    plain = build(pairs_at_once, Everything())
    assert sorted(found) == sorted(emitted_in_batch(plain))
    also = build(pairs_at_once, waiting(Everything))
    assert sorted(emitted_in_batch(also)) == sorted(found)
