"""Asynchronous steps that carry over: a slow call holds time up, and no round."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from dataclasses import replace

import apache_beam as beam
import pytest
from apache_beam import coders
from apache_beam.coders import VarIntCoder
from apache_beam.metrics import Metrics
from apache_beam.testing import test_stream
from apache_beam.transforms import userstate
from apache_beam.transforms.trigger import AfterWatermark
from apache_beam.transforms.window import FixedWindows, GlobalWindows, TimestampedValue

import sparkdrain
from sparkdrain.concurrency.settings import AsyncStep
from sparkdrain.errors import CheckpointRefused, DrainLimitExceeded
from sparkdrain.notes import notes_of
from sparkdrain.rounds import carried
from sparkdrain.rounds.sources.residuals import Residual, ResidualStore
from tests.support.drained import emitted_when_drained, limited
from tests.support.in_memory_rounds import DEFAULTS
from tests.support.random_pipelines import results
from tests.support.recorded import emitted_in_batch, emitted_in_rounds
from tests.support.undoing import undoing
from timers_state import MemoryStore, Overlay
from timers_state.errors import Unmovable

pytestmark = pytest.mark.filterwarnings("ignore")

STARTED: Counter[int] = Counter()


class WaitsForLater(beam.DoFn):
    """An element with a 3 at its end is complete when the one ten behind it has come."""

    async def process(self, element):
        STARTED[element] += 1
        while element % 10 == 3 and element + 10 not in STARTED and element < 30:
            await asyncio.sleep(0.001)
        yield element


class Slow(beam.DoFn):
    async def process(self, element):
        await asyncio.sleep(0.2 if element % 10 == 3 else 0)
        yield element


class Counts(WaitsForLater):
    async def process(self, element):
        Metrics.counter("out", "asked").inc()
        async for result in super().process(element):
            yield result


class Beside(WaitsForLater):
    async def process(self, element, side):
        async for result in super().process(element):
            yield result, sorted(side)


class Sometime(beam.DoFn):
    async def process(self, element):
        await asyncio.sleep(random.choice((0, 0.003, 0.01)))
        yield element


class Hangs(beam.DoFn):
    async def process(self, element):
        await asyncio.sleep(60)


def unpicklable(element):
    """For the last one: Beam looks at the first ones by itself."""
    return (lambda: element) if element == 39 else element


def stream(most=40):
    made = test_stream.TestStream()
    for start in range(0, most, 5):
        made = made.add_elements([TimestampedValue(x, x) for x in range(start, start + 5)])
        made = made.advance_watermark_to(start + 5)
    return made.advance_watermark_to_infinity()


def carrying(dofn, *sides, **settings):
    return beam.ParDo(sparkdrain.Concurrently(dofn, carry_over=True, **settings), *sides)


@pytest.fixture(autouse=True)
def _nothing_is_waited_for(monkeypatch):
    STARTED.clear()
    monkeypatch.setattr(carried, "_PATIENCE_SECONDS", 0.0)


def rounds_of(rounds):
    return {x: number for number, seen in enumerate(rounds) for x in seen}


def test_a_round_does_not_wait_for_an_element_in_flight():
    rounds = emitted_in_rounds(lambda p: p | stream() | carrying(WaitsForLater()))
    assert sorted(x for seen in rounds for x in seen) == list(range(40))
    assert set(STARTED.values()) == {1}
    of = rounds_of(rounds)
    assert of[3] > of[4]


def test_an_option_has_a_step_carry_over():
    options = replace(DEFAULTS, async_steps=(("Ask", AsyncStep(100, carry_over=True)),))
    build = lambda p: p | stream(10) | "Ask" >> beam.ParDo(Slow())
    of = rounds_of(emitted_in_rounds(build, options=options))
    assert of[3] > of[4]


def test_a_round_waits_a_little_for_elements_that_it_has_begun(monkeypatch):
    monkeypatch.setattr(carried, "_PATIENCE_SECONDS", 30.0)
    rounds = emitted_in_rounds(lambda p: p | stream(20) | carrying(Slow()))
    of = rounds_of(rounds)
    assert [of[x] for x in range(20)] == sorted(of[x] for x in range(20))
    assert of[3] == of[4]


def test_a_window_waits_for_elements_that_are_carried_over():
    rounds = emitted_in_rounds(
        lambda p: (
            p
            | stream()
            | carrying(WaitsForLater())
            | beam.WindowInto(FixedWindows(5), trigger=AfterWatermark(), accumulation_mode=1)
            | beam.Map(lambda x: (0, x))
            | beam.GroupByKey()
            | beam.MapTuple(lambda _, values: sorted(values))
        )
    )
    panes = sorted(pane for seen in rounds for pane in seen)
    assert panes == [list(range(start, start + 5)) for start in range(0, 40, 5)]


def test_a_late_element_is_not_later_because_it_was_carried_over():
    """The window of the late one is still open when it comes, and time stands still from then."""
    late = (
        test_stream.TestStream()
        .advance_watermark_to(11)
        .add_elements([TimestampedValue(3, 3)])
        .advance_watermark_to(40)
        .add_elements([TimestampedValue(x, 40) for x in (13, 23, 33)])
        .advance_watermark_to_infinity()
    )
    rounds = emitted_in_rounds(
        lambda p: (
            p
            | late
            | carrying(WaitsForLater())
            | beam.WindowInto(FixedWindows(10), allowed_lateness=10)
            | beam.Map(lambda x: (0, x))
            | beam.GroupByKey()
            | beam.MapTuple(lambda _, values: sorted(values))
        )
    )
    assert sorted(pane for seen in rounds for pane in seen) == [[3], [13, 23, 33]]


@pytest.mark.parametrize("order", ["none", "input"])
def test_rounds_that_are_undone_start_carried_elements_again(order):
    rounds = emitted_in_rounds(
        lambda p: p | stream() | carrying(WaitsForLater(), order=order),
        fail=undoing(1, 0.3),
        attempts=30,
    )
    assert sorted(x for seen in rounds for x in seen) == list(range(40))
    assert max(STARTED.values()) > 1


def test_carried_elements_that_start_again_still_have_their_side_inputs():
    def build(p):
        windows = p | stream() | beam.WindowInto(FixedWindows(5))
        return windows | carrying(Beside(), beam.pvalue.AsIter(windows))

    rounds = emitted_in_rounds(build, fail=undoing(1, 0.3), attempts=30)
    seen = sorted(pair for kept in rounds for pair in kept)
    assert seen == [(x, list(range(x - x % 5, x - x % 5 + 5))) for x in range(40)]
    assert max(STARTED.values()) > 1


def test_elements_of_a_key_keep_their_order_though_rounds_are_undone():
    rounds = emitted_in_rounds(
        lambda p: (
            p | stream() | beam.Map(lambda x: (x % 2, x)) | carrying(Sometime(), order="by_key")
        ),
        fail=undoing(2, 0.3),
        attempts=30,
    )
    seen = [pair for kept in rounds for pair in kept]
    for key in range(2):
        assert [x for k, x in seen if k == key] == list(range(key, 40, 2))


def test_metrics_of_an_element_count_with_it():
    found = []
    emitted_in_rounds(
        lambda p: p | stream() | carrying(Counts()),
        fail=undoing(1, 0.3),
        attempts=30,
        watch=lambda rounds: found.append(results(rounds.schedule.reports())),
    )
    assert found == [{"asked": 40}]
    assert max(STARTED.values()) > 1


def test_a_drain_waits_for_what_was_carried_over():
    before, after = emitted_when_drained(lambda p: p | stream() | carrying(Slow()), 3)
    assert sorted(before + after) == list(range(max(before + after) + 1))
    assert 3 in after


def test_a_call_that_hangs_is_over_the_limit_of_a_drain_for_elements():
    with pytest.raises(DrainLimitExceeded, match="--drain_element_limit_ms"):
        emitted_when_drained(lambda p: p | stream() | carrying(Hangs()), 3, begin=limited)


def test_a_round_comes_when_an_element_is_complete_and_nothing_else_happens():
    rounds = emitted_in_rounds(lambda p: p | stream(5) | carrying(Slow()))
    assert sorted(x for seen in rounds for x in seen) == list(range(5))


def test_batch_jobs_wait_as_they_always_do():
    seen = emitted_in_batch(lambda p: p | beam.Create(range(20)) | carrying(Slow()))
    assert sorted(seen) == list(range(20))


class Buffers(Slow):
    def finish_bundle(self):
        pass


class Acknowledges(beam.DoFn):
    async def process(self, element, finalizer=beam.DoFn.BundleFinalizerParam):
        yield element


class Sums(beam.DoFn):
    SUM = userstate.CombiningValueStateSpec("sum", VarIntCoder(), sum)

    async def process(self, element, total=beam.DoFn.StateParam(SUM)):
        total.add(element[1])


@pytest.mark.parametrize(
    ("dofn", "why"),
    [
        (Buffers(), "Buffers has finish_bundle, .* leave carry_over out"),
        (Acknowledges(), "Acknowledges uses BundleFinalizerParam"),
    ],
)
def test_a_dofn_that_cannot_outlast_its_bundle_is_refused_where_it_is_written(dofn, why):
    with pytest.raises(ValueError, match=why):
        carrying(dofn)


def test_keys_that_carry_over_leave_a_place_to_timers():
    with pytest.raises(ValueError, match=r"Sums uses state or timers.* let max_in_flight be 2"):
        sparkdrain.Concurrently(Sums(), 1, carry_over=True)


def test_an_element_that_cannot_be_encoded_is_told_with_its_step():
    make = lambda p: p | stream() | beam.Map(unpicklable) | carrying(Hangs())
    with pytest.raises(Exception, match=r"pickle.*while running 'ParDo") as caught:
        emitted_in_rounds(make)
    assert "has to be encoded to be carried over" in str(notes_of(caught.value))


def store(*orders):
    """A slot's state with an element in flight for each step, by whether it has an order."""
    overlay = Overlay(MemoryStore(), 1 << 20)
    coder = coders.WindowedValueCoder(VarIntCoder(), coders.coders.GlobalWindowCoder()).get_impl()
    for number, is_ordered in enumerate(orders):
        element = GlobalWindows.windowed_value(number)
        ResidualStore(overlay, number, coder).put(Residual(element, 0, known=is_ordered), 0)
    overlay.flush()
    return overlay.store


def test_elements_that_were_coded_in_another_way_are_refused_by_name():
    overlay = Overlay(MemoryStore(), 1 << 20)
    carried.CarriedCoding(overlay, 7, "varint").note()
    carried.CarriedCoding(overlay, 7, "varint").check("Ask")
    with pytest.raises(CheckpointRefused, match=r"'Ask' has .* coded as varint .* as bytes"):
        carried.CarriedCoding(overlay, 7, "bytes").check("Ask")


def test_elements_of_a_step_with_an_order_do_not_move_to_other_slots():
    state = store(False, True)
    carried.check_movable(state, 0, "free")
    with pytest.raises(Unmovable, match=r"'Ask' has elements in flight .*\(order\)"):
        carried.check_movable(state, 1, "Ask")
