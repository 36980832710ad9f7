"""Whatever a slot keeps of a job goes on in other slots: of each kind, wherever the job dies."""

from __future__ import annotations

import functools

import apache_beam as beam
import pytest
from apache_beam.coders import VarIntCoder
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.testing import test_stream
from apache_beam.transforms import trigger, userstate, window
from hypothesis import HealthCheck, example, given

from sparkdrain.io.stable import StableParDo
from sparkdrain.rounds.slots import service
from tests.support.at_once import AtOnce
from tests.support.in_memory import run_in_memory
from tests.support.in_memory_rounds import plan_of
from tests.support.law import law
from tests.support.mortal_job import LIVES, made_in
from tests.support.random_pipelines import (
    TotalAtEndOfWindow,
    build,
    count,
    created,
    results,
    streamed,
)
from tests.support.restrictions import LeapingClock, Poll

ELEMENTS = [(key, value, value) for value, key in enumerate("abcdabefcghadbceafghbd" * 2)]


@pytest.fixture(autouse=True)
def _uploads_at_once(monkeypatch) -> None:
    monkeypatch.setattr(service, "Uploader", AtOnce)


def script():
    """All elements come early, and time follows in steps: they wait for it."""
    stream = test_stream.TestStream()
    for start in range(0, len(ELEMENTS), 11):
        values = [window.TimestampedValue((k, v), t) for k, v, t in ELEMENTS[start : start + 11]]
        stream = stream.add_elements(values)
    for time in (5, 12, 31):
        stream = stream.advance_watermark_to(time)
    return stream.advance_watermark_to_infinity()


def added(element, others):
    return element[0], element[1] + sum(other[1] for other in others)


class Added(beam.DoFn):
    """Counts the elements of a key, in state, and adds a side input."""

    SEEN = userstate.CombiningValueStateSpec("seen", VarIntCoder(), sum)

    def process(self, element, others, seen=beam.DoFn.StateParam(SEEN)):
        seen.add(1)
        yield added(element, others)


class Same(beam.DoFn):
    def process(self, element):
        yield element


def triggered(p):
    """A side input that changes; all that is sure is that it is there some time."""
    fired = p | "Panes" >> beam.WindowInto(
        window.FixedWindows(10),
        trigger=trigger.Repeatedly(trigger.AfterCount(2)),
        accumulation_mode=trigger.AccumulationMode.ACCUMULATING,
    )
    return beam.pvalue.AsIter(fired)


SHAPES = {
    "before a side input": lambda p: p | beam.Map(added, beam.pvalue.AsIter(p)),
    "before one, spread": lambda p: p | beam.Reshuffle() | beam.Map(added, beam.pvalue.AsIter(p)),
    "before one that changes": lambda p: p | beam.Map(lambda kv, _: kv, triggered(p)),
    "before one, by key": lambda p: p | beam.ParDo(Added(), beam.pvalue.AsIter(p)),
    "before one, grouped": lambda p: (
        p
        | beam.GroupByKey()
        | beam.Map(lambda kv, others: added((kv[0], sum(kv[1])), others), beam.pvalue.AsIter(p))
    ),
    "stable": lambda p: p | StableParDo(Same()),
    "stable, by key": lambda p: p | StableParDo(TotalAtEndOfWindow()),
    "stable, grouped": lambda p: (
        p | beam.GroupByKey() | StableParDo(Same()) | beam.MapTuple(lambda k, vs: (k, sum(vs)))
    ),
    "stable, before a side input": lambda p: p | StableParDo(Added(), beam.pvalue.AsIter(p)),
}


def pipeline_of(source, shape):
    pipeline = beam.Pipeline(options=PipelineOptions([]))
    build(pipeline, source, "fixed", [], [shape], SHAPES)
    return pipeline


@functools.cache
def stream_and_outcome(shape):
    """The plan of a stream, and what it makes of its elements if they are bounded."""
    outcome = results(run_in_memory(pipeline_of(created(ELEMENTS), shape), 2))
    return plan_of(pipeline_of(streamed(script()), shape)), outcome


@pytest.mark.parametrize("name", SHAPES)
@law(2, HealthCheck.function_scoped_fixture)
@given(lives=LIVES)
def test_what_waits_in_a_slot_goes_on_in_other_slots(name, lives) -> None:
    plan, outcome = stream_and_outcome(name)
    made, _ = made_in(lives, plan)
    assert made == outcome


@functools.cache
def polling():
    pipeline = beam.Pipeline(options=PipelineOptions([]))
    polled = pipeline | beam.Create([(10 * n, 10 * n + 4, 1 + n % 2) for n in range(7)])
    numbers = polled | beam.ParDo(Poll()) | beam.Reshuffle() | beam.Map(lambda number: (number,))
    _ = numbers | "Count" >> beam.Map(count)
    return plan_of(pipeline)


@law(2, HealthCheck.function_scoped_fixture)
@given(LIVES)
@example(([1, 3], [12]))
@example(([1, 2], [20]))
def test_sources_go_on_in_other_slots(lives) -> None:
    made, _ = made_in(lives, polling(), clock=LeapingClock())
    assert len(made) == 28
    assert set(made.values()) == {1}
