"""One law: slots may move at any time, however often, and nothing of what the job makes changes."""

from __future__ import annotations

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from test_other_slots import SHAPES, polling, stream_and_outcome

from sparkdrain.rounds.slots import service
from tests.support.at_once import AtOnce, RoundsLater
from tests.support.in_memory import run_in_memory
from tests.support.in_memory_rounds import plan_of
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
    MOVES,
)
def test_a_job_whose_slots_move_makes_everything_once(
    stream, windowing, each, grouped, lives, moves
) -> None:
    elements, script = stream
    each, grouped = sound(windowing, each, grouped)
    batch = beam.Pipeline(options=PipelineOptions([]))
    build(batch, created(elements), windowing, each, grouped)
    streaming = beam.Pipeline(options=PipelineOptions([]))
    build(streaming, streamed(script), windowing, each, grouped)
    made, _ = made_in(lives, plan_of(streaming), moves=moves)
    assert made == results(run_in_memory(batch, 2))


@pytest.mark.parametrize("name", SHAPES)
def test_what_waits_in_a_slot_moves_with_it(name) -> None:
    plan, outcome = stream_and_outcome(name)
    made, job = made_in(([3], []), plan, moves=[(2, frozenset({0, 2}))])
    assert not job.moves, "they were made"
    assert made == outcome


def test_a_source_goes_on_where_it_was_in_another_place() -> None:
    moves = [(number, frozenset({number % 2})) for number in range(1, 5)]
    made, job = made_in(([2], []), polling(), clock=LeapingClock(), moves=moves)
    assert not job.moves, "all of them were made"
    assert len(made) == 28
    assert set(made.values()) == {1}


def test_while_a_checkpoint_for_a_move_is_uploaded_slots_stand_still(monkeypatch) -> None:
    """What they did meanwhile would be missing in those that move."""
    monkeypatch.setattr(service, "Uploader", RoundsLater)
    moves = [(number, frozenset({number % 2})) for number in range(1, 5)]
    made, job = made_in(([2], []), polling(), clock=LeapingClock(), moves=moves)
    assert not job.moves, "all of them were made"
    assert len(made) == 28
    assert set(made.values()) == {1}
