"""A law of carry over: what is committed is what a plain DoFn makes.

So it is wherever rounds end, are undone, and the job dies, is drained, or goes on with other slots.
"""

from __future__ import annotations

import asyncio
import random

import apache_beam as beam
import pytest
from apache_beam.coders import VarIntCoder
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms import userstate
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from test_checkpoints import read

import sparkdrain
from sparkdrain.rounds import carried
from sparkdrain.rounds.slots import service
from tests.support.at_once import AtOnce
from tests.support.in_memory import run_in_memory
from tests.support.in_memory_rounds import InMemoryRounds, plan_of
from tests.support.law import law
from tests.support.mortal_job import LIVES, MOVES, made_in
from tests.support.random_pipelines import (
    EACH,
    GROUPED,
    WINDOWS,
    build,
    created,
    results,
    sound,
    streamed,
    streams,
)
from tests.support.undoing import ATTEMPTS, SEEDS, undoing


class Slow(beam.DoFn):
    """Takes its time with what ``Twice`` makes at once."""

    async def process(self, element):
        key, value = element
        await asyncio.sleep(random.choice((0, 0, 0.001, 0.01)))
        return [(key, value), (key, value + 1)]


class SlowTotal(beam.DoFn):
    """What ``TotalAtEndOfWindow`` makes; takes its time between two states that it changes."""

    TOTAL = userstate.CombiningValueStateSpec("total", VarIntCoder(), sum)
    SEEN = userstate.BagStateSpec("seen", VarIntCoder())
    END = userstate.TimerSpec("end", userstate.TimeDomain.WATERMARK)

    async def process(
        self,
        element,
        w=beam.DoFn.WindowParam,
        total=beam.DoFn.StateParam(TOTAL),
        seen=beam.DoFn.StateParam(SEEN),
        end=beam.DoFn.TimerParam(END),
    ):
        total.add(element[1])
        end.set(w.max_timestamp())
        await asyncio.sleep(random.choice((0, 0, 0.001, 0.01)))
        seen.add(element[1])

    @userstate.on_timer(END)
    async def tell(
        self,
        key=beam.DoFn.KeyParam,
        total=beam.DoFn.StateParam(TOTAL),
        seen=beam.DoFn.StateParam(SEEN),
    ):
        await asyncio.sleep(random.choice((0, 0.001)))
        yield key, total.read() + len(list(seen.read()))


class SlowTotalWithOthers(beam.DoFn):
    """What ``TotalWithOthers`` makes; reads its side input before its call and after that."""

    TOTAL = userstate.ReadModifyWriteStateSpec("total", VarIntCoder())
    VARIED = userstate.SetStateSpec("varied", VarIntCoder())
    END = userstate.TimerSpec("end", userstate.TimeDomain.WATERMARK)

    async def process(
        self,
        element,
        others,
        w=beam.DoFn.WindowParam,
        total=beam.DoFn.StateParam(TOTAL),
        varied=beam.DoFn.StateParam(VARIED),
        end=beam.DoFn.TimerParam(END),
    ):
        total.write((total.read() or 0) + element[1] + sum(other[1] for other in others))
        end.set(w.max_timestamp())
        await asyncio.sleep(random.choice((0, 0, 0.001, 0.01)))
        total.write(total.read() - sum(other[1] for other in others))
        varied.add(element[1] % 5)
        total.write(total.read() + sum(other[1] for other in others))

    @userstate.on_timer(END)
    def tell(
        self,
        key=beam.DoFn.KeyParam,
        total=beam.DoFn.StateParam(TOTAL),
        varied=beam.DoFn.StateParam(VARIED),
    ):
        yield key, total.read() + 3 * sum(varied.read())


class Beside(beam.DoFn):
    """Makes nothing, and has the elements of other steps go on whenever it waits."""

    SEEN = userstate.BagStateSpec("seen", VarIntCoder())

    async def start_bundle(self):
        await asyncio.sleep(random.choice((0, 0.001, 0.01)))

    async def process(self, element, seen=beam.DoFn.StateParam(SEEN)):
        await asyncio.sleep(random.choice((0, 0, 0.001)))
        return []

    async def finish_bundle(self):
        await asyncio.sleep(random.choice((0, 0.001, 0.01)))


def slow(order):
    if order == WITH_OTHERS:
        dofn = sparkdrain.Concurrently(SlowTotalWithOthers(), 3, carry_over=True)
        return lambda p: p | beam.ParDo(dofn, beam.pvalue.AsIter(p))
    if order != "state":
        dofn = sparkdrain.Concurrently(Slow(), 3, order, carry_over=True)
        return lambda p: p | beam.ParDo(dofn)
    dofn = sparkdrain.Concurrently(SlowTotal(), 3, carry_over=True)

    def build(p):
        ways = "total" >> beam.ParDo(dofn), "beside" >> beam.ParDo(Beside())
        return [p | way for way in ways] | beam.Flatten()

    return build


WITH_OTHERS = "state and side input"
ORDERS = ("none", "by_key", "input", "state", WITH_OTHERS)
PLAIN = {"state": "state", WITH_OTHERS: WITH_OTHERS}
SLOW = {f"slowly {order}": slow(order) for order in ORDERS}


@pytest.fixture(autouse=True)
def _everything_in_flight_is_carried_over(monkeypatch) -> None:
    monkeypatch.setattr(service, "Uploader", AtOnce)
    monkeypatch.setattr(carried, "_PATIENCE_SECONDS", 0.0)


PIPELINES = (
    streams(),
    st.sampled_from(sorted(WINDOWS)),
    st.lists(st.sampled_from(sorted(EACH)), max_size=1),
    st.lists(st.sampled_from(sorted(GROUPED)), min_size=1, max_size=2),
)


def pipelines(stream, windowing, before, behind, order):
    """What a plain DoFn makes of the first events of a stream, and pipelines that wait."""
    _, script = stream
    before, behind = sound(windowing, before, behind)
    if windowing == "sessions" and order in PLAIN:
        order, behind = "state", []  # what timers send may come too late to be merged

    def expected(events=None):
        batch = beam.Pipeline(options=PipelineOptions([]))
        plain = PLAIN.get(order, "twice")
        build(batch, created(read(script, events)), windowing, [*before, plain], behind)
        return results(run_in_memory(batch, 2))

    def carrying():
        streaming = beam.Pipeline(options=PipelineOptions([]))
        steps = [*before, f"slowly {order}"]
        build(streaming, streamed(script), windowing, steps, behind, SLOW)
        return plan_of(streaming)

    return expected, carrying


@law(2, HealthCheck.function_scoped_fixture)
@given(*PIPELINES, st.sampled_from(ORDERS), SEEDS, st.sampled_from([0.0, 0.15]))
def test_rounds_that_carry_over_make_what_a_plain_dofn_makes(
    stream, windowing, before, behind, order, seed, failing
) -> None:
    expected, carrying = pipelines(stream, windowing, before, behind, order)
    rounds = InMemoryRounds(carrying(), fail=undoing(seed, failing), attempts=ATTEMPTS)
    try:
        rounds.run_to_end()
        reports = rounds.schedule.reports()
    finally:
        rounds.close()
    assert results(reports) == expected()
    assert {report.dropped for report in reports} == {0}


@law(2, HealthCheck.function_scoped_fixture)
@given(
    *PIPELINES,
    st.sampled_from(["none", "state", WITH_OTHERS]),
    st.none() | st.integers(0, 12),
    LIVES,
    MOVES,
)
def test_what_is_carried_over_goes_on_in_other_slots(
    stream, windowing, before, behind, order, drain_after, lives, moves
) -> None:
    expected, carrying = pipelines(stream, windowing, before, behind, order)
    made, job = made_in(lives, carrying(), drain_after, moves=moves)
    assert made == expected(job.cut)
