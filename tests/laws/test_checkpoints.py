"""One law: whenever a job dies, and however often, it ends with what it would have made unharmed.

Each of its lives may have another number of slots. What it has made is read from what slots report,
so it is that which checkpoints cover: everything counts once.
"""

from __future__ import annotations

import json
from random import SystemRandom
from typing import ClassVar

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.testing import test_stream
from apache_beam.utils.timestamp import Duration
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from sparkdrain.io.stable import StableParDo
from sparkdrain.rounds.slots import service
from tests.support.at_once import AtOnce
from tests.support.endless import Endless
from tests.support.in_memory import run_in_memory
from tests.support.in_memory_rounds import plan_of
from tests.support.law import law
from tests.support.mortal_job import LIVES, made_in
from tests.support.random_pipelines import (
    EACH,
    GROUPED,
    WINDOWS,
    build,
    count,
    created,
    results,
    sound,
    streamed,
    streams,
)
from tests.support.restrictions import LeapingClock


@pytest.fixture(autouse=True)
def _uploads_at_once(monkeypatch) -> None:
    monkeypatch.setattr(service, "Uploader", AtOnce)


@law(8, HealthCheck.function_scoped_fixture)
@given(
    streams(),
    st.sampled_from(sorted(WINDOWS)),
    st.lists(st.sampled_from(sorted(EACH)), max_size=1),
    st.lists(st.sampled_from(sorted(GROUPED)), min_size=1, max_size=2),
    LIVES,
)
def test_a_job_that_dies_and_goes_on_makes_everything_once(
    stream, windowing, each, grouped, lives
) -> None:
    elements, script = stream
    each, grouped = sound(windowing, each, grouped)
    batch = beam.Pipeline(options=PipelineOptions([]))
    build(batch, created(elements), windowing, each, grouped)
    expected = results(run_in_memory(batch, 2))

    streaming = beam.Pipeline(options=PipelineOptions([]))
    build(streaming, streamed(script), windowing, each, grouped)
    plan = plan_of(streaming)
    assert made_in(lives, plan)[0] == expected


@law(8, HealthCheck.function_scoped_fixture)
@given(
    streams(),
    st.sampled_from(sorted(WINDOWS)),
    st.lists(st.sampled_from(sorted(EACH)), max_size=1),
    st.lists(st.sampled_from(sorted(GROUPED)), min_size=1, max_size=2),
    st.integers(0, 12),
    LIVES,
)
def test_a_job_that_dies_while_it_is_drained_makes_all_of_what_it_had_read_once(
    stream, windowing, each, grouped, drain_after, lives
) -> None:
    _, script = stream
    each, grouped = sound(windowing, each, grouped)
    streaming = beam.Pipeline(options=PipelineOptions([]))
    build(streaming, streamed(script), windowing, each, grouped)
    made, job = made_in(lives, plan_of(streaming), drain_after)

    batch = beam.Pipeline(options=PipelineOptions([]))
    build(batch, created(read(script, job.cut)), windowing, each, grouped)
    assert made == results(run_in_memory(batch, 2))


class Effects(beam.DoFn):
    """Has effects outside of the job: all that it sees, and in which life."""

    SEEN: ClassVar[list] = []

    def process(self, element):
        Effects.SEEN.append(element)
        yield element


@law(6, HealthCheck.function_scoped_fixture)
@given(
    streams(),
    st.sampled_from(["fixed", "global"]),
    st.lists(st.sampled_from(["sum per key", "state"]), max_size=1),
    st.none() | st.integers(0, 12),
    LIVES,
)
def test_what_requires_stable_input_never_sees_what_did_not_come_to_be(
    stream, windowing, grouped, drain_after, lives
) -> None:
    _, script = stream

    def unstable(element):
        # Another one each time, as what a service outside answers.
        return element[0], (element[1], SystemRandom().random())

    def pipe(collection):
        made = collection | "Unstable" >> beam.Map(unstable)
        seen = made | StableParDo(Effects()) | "Plain" >> beam.MapTuple(lambda k, v: (k, v[0]))
        _ = made | "Kept" >> beam.Map(count)
        return seen

    streaming = beam.Pipeline(options=PipelineOptions([]))
    build(streaming, lambda p: pipe(streamed(script)(p)), windowing, [], grouped)
    Effects.SEEN.clear()
    made, _ = made_in(lives, plan_of(streaming), drain_after)
    # What came to be is what checkpoints have: the metrics.
    rows = map(json.loads, made)
    kept = {(key, *value) for key, value, _ in rows if isinstance(value, list)}
    assert {(key, *value) for key, value in Effects.SEEN} == kept


class Read(beam.DoFn):
    @beam.DoFn.unbounded_per_element()
    def process(self, element, tracker=beam.DoFn.RestrictionParam(Endless())):
        position = tracker.current_restriction().start
        for _ in range(3):
            if not tracker.try_claim(position):
                return
            yield position
            position += 1
        tracker.defer_remainder(Duration(1))


@law(5)
@given(st.integers(1, 9), LIVES)
def test_a_source_that_was_cut_is_never_read_on(drain_after, lives) -> None:
    pipeline = beam.Pipeline(options=PipelineOptions([]))
    ranges = beam.Create([(n * 10**9, (n + 1) * 10**9) for n in range(5)])
    numbers = pipeline | ranges | beam.ParDo(Read())
    shuffled = numbers | beam.Reshuffle() | beam.Map(lambda number: (number,))
    _ = shuffled | "Count" >> beam.Map(count)
    made, job = made_in(lives, plan_of(pipeline), drain_after, LeapingClock())
    assert made == (job.made_at_cut or {})
    assert set(made.values()) <= {1}


def read(script, events):
    """The elements in so many events of a script; None: in all."""
    return [
        (*element.value, int(element.timestamp))
        for event in script._events[:events]
        if isinstance(event, test_stream.ElementEvent)
        for element in event.timestamped_values
    ]
