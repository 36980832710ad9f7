"""Asynchronous steps in a stream: a round is committed when all that it has begun is complete."""

from __future__ import annotations

import asyncio
import itertools
import random
import threading
from dataclasses import replace

import apache_beam as beam
import pytest
from apache_beam.coders import VarIntCoder
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.testing import test_stream
from apache_beam.transforms import userstate
from apache_beam.transforms.trigger import AfterWatermark
from apache_beam.transforms.window import FixedWindows, TimestampedValue

import sparkdrain
from sparkdrain.side_inputs.windows import WindowedContent
from tests.support.drained import emitted_when_drained
from tests.support.in_memory_rounds import DEFAULTS, element_counts, run_in_rounds
from tests.support.recorded import emitted_in_rounds
from tests.support.scripts import Mark, pairs_in_rounds
from tests.support.undoing import undoing

pytestmark = pytest.mark.filterwarnings("ignore")


class Lookup(beam.DoFn):
    async def process(self, element):
        await asyncio.sleep(random.choice((0, 0.001, 0.01)))
        yield element


FAILED = set()


class FailsAtFirst(beam.DoFn):
    async def process(self, element):
        await asyncio.sleep(random.choice((0, 0.001, 0.01)))
        if element % 50 == 7 and element not in FAILED:
            FAILED.add(element)
            raise ConnectionError(element)
        return [element]


def stream(most=200):
    made = test_stream.TestStream()
    for start in range(0, most, 20):
        made = made.add_elements([TimestampedValue(x, x) for x in range(start, start + 20)])
        made = made.advance_watermark_to(start + 20)
    return made.advance_watermark_to_infinity()


@pytest.mark.parametrize("order", ["none", "input"])
def test_a_round_has_all_results_of_its_elements(order):
    dofn = sparkdrain.Concurrently(Lookup(), max_in_flight=7, order=order)
    rounds = emitted_in_rounds(lambda p: p | stream() | beam.ParDo(dofn))
    assert sorted(x for seen in rounds for x in seen) == list(range(200))
    rounds = [seen for seen in rounds if seen]
    # What a round was fed has left in it: rounds do not mix.
    assert all(max(one) < min(next_) for one, next_ in itertools.pairwise(rounds))


def test_a_window_waits_for_its_elements_in_flight():
    rounds = emitted_in_rounds(
        lambda p: (
            p
            | stream()
            | beam.ParDo(Lookup())
            | beam.WindowInto(FixedWindows(50), trigger=AfterWatermark(), accumulation_mode=1)
            | beam.Map(lambda x: (0, x))
            | beam.GroupByKey()
            | beam.MapTuple(lambda _, values: sorted(values))
        )
    )
    panes = sorted(pane for seen in rounds for pane in seen)
    assert panes == [list(range(start, start + 50)) for start in range(0, 200, 50)]


@pytest.mark.parametrize("seed", range(3))
def test_rounds_that_are_undone_with_elements_in_flight_count_once(seed):
    dofn = sparkdrain.Concurrently(FailsAtFirst(), max_in_flight=9, retries=1, backoff=0)
    FAILED.clear()
    rounds = emitted_in_rounds(
        lambda p: p | stream() | beam.ParDo(dofn), fail=undoing(seed, 0.3), attempts=30
    )
    assert sorted(x for seen in rounds for x in seen) == list(range(200))
    assert len(FAILED) == 4


class Adds(beam.DoFn):
    """Reads, waits while other keys need room, and writes."""

    SUM = userstate.ReadModifyWriteStateSpec("sum", VarIntCoder())

    async def process(self, element, total=beam.DoFn.StateParam(SUM)):
        key, value = element
        before = total.read() or 0
        await asyncio.sleep(0.001 if key % 7 == 3 else 0)
        total.write(before + value)
        yield key, before + value


def test_state_of_keys_in_flight_stays_though_there_is_no_room():
    made = test_stream.TestStream()
    for value in range(1, 5):
        pairs = [TimestampedValue((key, value), value) for key in range(120)]
        made = made.add_elements(pairs).advance_watermark_to(value)
    made = made.advance_watermark_to_infinity()
    rounds = emitted_in_rounds(
        lambda p: (
            p | made | beam.Map(tuple).with_output_types(tuple[int, int]) | beam.ParDo(Adds())
        ),
        options=replace(DEFAULTS, state_bytes=20_000),
    )
    sums = (1, 3, 6, 10)
    assert sorted(x for seen in rounds for x in seen) == [(k, s) for k in range(120) for s in sums]


class Ticks(beam.DoFn):
    """A timer that sets itself again, for ever; it takes longer for one key than for another."""

    TICK = userstate.TimerSpec("tick", userstate.TimeDomain.WATERMARK)

    def process(self, element, time=beam.DoFn.TimestampParam, tick=beam.DoFn.TimerParam(TICK)):
        tick.set(time + 10)

    @userstate.on_timer(TICK)
    async def again(
        self,
        key=beam.DoFn.KeyParam,
        time=beam.DoFn.TimestampParam,
        tick=beam.DoFn.TimerParam(TICK),
    ):
        await asyncio.sleep(0.01 if key == "a" else 0)
        tick.set(time + 10)
        return [(key, time.seconds())]


def test_a_drain_stops_timers_of_each_key_in_flight_by_itself():
    told = {}
    make = pairs_in_rounds([("a", 1, 1), ("b", 1, 5)], Mark(100))
    _, after = emitted_when_drained(
        lambda p: make(p) | beam.ParDo(Ticks()),
        2,
        slots=1,
        repeats=4,
        watch=lambda rounds: told.update(rounds.schedule.refused),
    )
    assert sorted(after) == [
        (key, first + 10 * n) for key, first in (("a", 11), ("b", 15)) for n in range(5)
    ]
    assert told == {("ParDo(Ticks)", "tick"): 2}


class ReadsSides(beam.DoFn):
    """Reads its side inputs when it has waited."""

    async def process(self, element, listed, of_key):
        await asyncio.sleep(random.choice((0, 0.001)))
        yield element, sorted(listed), sorted(of_key["a"]), list(of_key["nobody"])


def test_side_inputs_of_a_stream_are_read_in_the_slots_thread(monkeypatch):
    """The state that has them belongs to it."""
    readers = set()
    for name in ("values", "keys"):

        def read(*args, own=getattr(WindowedContent, name), **kwargs):
            readers.add(threading.current_thread())
            yield from own(*args, **kwargs)

        monkeypatch.setattr(WindowedContent, name, read)

    def build(p):
        side = p | "Side" >> beam.Create([("a", 1), ("b", 2), ("a", 3)])
        views = beam.pvalue.AsIter(side), beam.pvalue.AsMultiMap(side)
        return p | beam.Create(range(20)) | beam.ParDo(ReadsSides(), *views)

    rounds = emitted_in_rounds(build)
    seen = sorted(x for one in rounds for x in one)
    assert seen == [(x, [("a", 1), ("a", 3), ("b", 2)], [1, 3], []) for x in range(20)]
    assert readers
    assert not any("loop" in reader.name for reader in readers), readers


class Sums(beam.DoFn):
    SUM = userstate.CombiningValueStateSpec("sum", combine_fn=sum)

    def process(self, element, total=beam.DoFn.StateParam(SUM)):
        total.add(element[1])
        yield element[0], total.read()


class SlowSums(Sums):
    async def process(self, element, total=beam.DoFn.StateParam(Sums.SUM)):
        await asyncio.sleep(0)
        total.add(element[1])
        yield element[0], total.read()


def test_elements_of_keys_in_flight_count_in_the_round_in_which_they_came():
    def counted(dofn):
        pipeline = beam.Pipeline(options=PipelineOptions([]))
        pairs = pipeline | stream(60) | beam.Map(lambda x: (x % 7, x))
        _ = pairs | "sums" >> beam.ParDo(dofn)
        return element_counts(run_in_rounds(pipeline, slots=1))

    assert counted(SlowSums()) == counted(Sums())
