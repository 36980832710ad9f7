"""A law: what elements see of side inputs depends on windows only, not on how things arrive."""

from __future__ import annotations

import asyncio
import random
from unittest import mock

import apache_beam as beam
import pytest
from apache_beam.pvalue import AsIter, AsMultiMap, AsSingleton
from apache_beam.testing import test_stream
from apache_beam.transforms.sideinputs import default_window_mapping_fn
from apache_beam.transforms.trigger import AccumulationMode, AfterCount, Repeatedly
from apache_beam.transforms.userstate import CombiningValueStateSpec
from apache_beam.transforms.window import (
    FixedWindows,
    GlobalWindows,
    SlidingWindows,
    TimestampedValue,
    WindowFn,
)
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

import sparkdrain
from sparkdrain.rounds import carried
from sparkdrain.stages.shards.task_options import TaskOptions
from tests.support.law import law
from tests.support.recorded import emitted
from tests.support.undoing import ATTEMPTS, SEEDS, undoing

pytestmark = pytest.mark.filterwarnings("ignore")

WINDOWS = [
    FixedWindows(10),
    FixedWindows(25, 3),
    SlidingWindows(20, 10),
    SlidingWindows(15, 5, 2),
    GlobalWindows(),
]
SMALL = TaskOptions(block_bytes=64, memory_bytes=1 << 20, compiled=True)
TAGS = ("main", "one", "two")


@st.composite
def scripts(draw):
    """Elements of three streams in any order; no watermark passes an element to come."""
    left = [
        (draw(st.sampled_from(TAGS)), draw(st.integers(0, 60)))
        for _ in range(draw(st.integers(0, 14)))
    ]
    elements = list(left)
    stream = test_stream.TestStream(output_tags=list(TAGS))
    marks = dict.fromkeys(TAGS, -1)
    while left:
        size = draw(st.integers(1, len(left)))
        now, left = left[:size], left[size:]
        for tag in TAGS:
            times = [time for each, time in now if each == tag]
            if times:
                stream.add_elements(
                    [TimestampedValue((time % 3, time), time) for time in times], tag=tag
                )
        for tag in TAGS:
            limit = min((time for each, time in left if each == tag), default=100)
            mark = draw(st.integers(0, limit))
            if mark > marks[tag] and draw(st.booleans()):
                marks[tag] = mark
                stream.advance_watermark_to(mark, tag=tag)
    return elements, stream


class Remember(beam.DoFn):
    """A stateful reader: what it sees must not depend on the order of its keys either."""

    SEEN = CombiningValueStateSpec("seen", max)

    def process(
        self, element, one, two, window=beam.DoFn.WindowParam, seen=beam.DoFn.StateParam(SEEN)
    ):
        seen.add(element[1])
        yield from read(element, one, two, window)


class Waits(beam.DoFn):
    """A reader whose elements may outlast their round."""

    async def process(self, element, one, two, window=beam.DoFn.WindowParam):
        await asyncio.sleep(random.choice((0, 0.002)))
        for found in read(element, one, two, window):
            yield found


def read(element, one, two, window=beam.DoFn.WindowParam):
    yield element[1], repr(window), sorted(one), sorted(two[element[0]])


def windows_at(windowfn, time):
    return windowfn.assign(WindowFn.AssignContext(time))


def expected(elements, main, one, two):
    times = {tag: [time for each, time in elements if each == tag] for tag in TAGS}
    for time in times["main"]:
        for window in windows_at(main, time):
            first, second = (default_window_mapping_fn(side)(window) for side in (one, two))
            yield (
                time,
                repr(window),
                sorted((t % 3, t) for t in times["one"] if first in windows_at(one, t)),
                sorted(
                    t for t in times["two"] if t % 3 == time % 3 and second in windows_at(two, t)
                ),
            )


@law(20, HealthCheck.data_too_large)
@given(
    scripts(),
    *(st.sampled_from(WINDOWS) for _ in range(3)),
    st.sampled_from(["plain", "stateful", "after a group", "carries over"]),
    st.integers(1, 3),
    st.sampled_from([3, 10_000]),
    SEEDS,
    st.sampled_from([0.0, 0.1]),
)
def test_elements_see_their_windows_of_side_inputs_however_these_arrive(
    script, main, one, two, reader, slots, elements, seed, failing
):
    events, stream = script

    def build(p):
        streams = p | stream
        ones, twos = (
            streams[tag] | f"{tag} windows" >> beam.WindowInto(side)
            for tag, side in (("one", one), ("two", two))
        )
        views = AsIter(ones), AsMultiMap(twos)
        pairs = streams["main"]
        pairs.is_bounded = True  # else Beam refuses to group what is global
        pairs = pairs | beam.WindowInto(main)
        if reader == "stateful":
            return pairs | beam.ParDo(Remember(), *views)
        if reader == "carries over":
            return pairs | beam.ParDo(sparkdrain.Concurrently(Waits(), carry_over=True), *views)
        if reader == "after a group":
            pairs = (
                pairs
                | beam.GroupByKey()
                | beam.FlatMapTuple(lambda k, times: [(k, time) for time in times])
            )
        return pairs | beam.FlatMap(read, *views)

    fail = undoing(seed, failing)
    with mock.patch.object(carried, "_PATIENCE_SECONDS", 0.0):
        seen = emitted(
            build, options=SMALL, slots=slots, elements=elements, fail=fail, attempts=ATTEMPTS
        )
    assert sorted(seen) == sorted(expected(events, main, one, two))


@law(10)
@given(
    st.lists(st.sampled_from(["main", "one"]), max_size=10),
    st.sampled_from(["plain", "stateful"]),
    st.integers(1, 3),
    SEEDS,
    st.sampled_from([0.0, 0.1]),
)
def test_elements_see_the_latest_value_or_wait_for_the_first(tags, reader, slots, seed, failing):
    stream = test_stream.TestStream(output_tags=["main", "one"])
    wanted, latest = [], None
    for number, tag in enumerate([*tags, "one"]):
        stream.add_elements([("k", number)], tag=tag)
        if tag == "one":
            latest = number
            wanted = [(n, number if seen is None else seen) for n, seen in wanted]
        else:
            wanted.append((number, latest))

    def build(p):
        streams = p | stream
        side = streams["one"] | beam.WindowInto(
            GlobalWindows(),
            trigger=Repeatedly(AfterCount(1)),
            accumulation_mode=AccumulationMode.DISCARDING,
        )
        look = beam.ParDo(Latest() if reader == "stateful" else Pair(), AsSingleton(side))
        return streams["main"] | look

    fail = undoing(seed, failing)
    seen = emitted(build, options=SMALL, slots=slots, fail=fail, attempts=ATTEMPTS)
    assert sorted(seen) == wanted


class Pair(beam.DoFn):
    def process(self, element, side):
        yield element[1], side[1]


class Latest(beam.DoFn):
    SEEN = CombiningValueStateSpec("seen", max)

    def process(self, element, side, seen=beam.DoFn.StateParam(SEEN)):
        seen.add(element[1])
        yield element[1], side[1]
