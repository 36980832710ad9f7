"""One law: a streaming run makes what the batch run makes, and what was undone leaves no trace.

However the input is cut into rounds, however the watermark steps, however many slots there are and
whichever rounds fail half-way: as long as nothing is late, the final results are the same.
"""

from __future__ import annotations

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
from hypothesis import given
from hypothesis import strategies as st

from tests.support.in_memory import run_in_memory
from tests.support.in_memory_rounds import run_in_rounds
from tests.support.law import law
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


@law(12)
@given(
    streams(),
    st.sampled_from(sorted(WINDOWS)),
    st.lists(st.sampled_from(sorted(EACH)), max_size=2),
    st.lists(st.sampled_from(sorted(GROUPED)), min_size=1, max_size=2),
    st.integers(1, 3),
    SEEDS,
    st.sampled_from([0.0, 0.1]),
)
def test_a_streaming_run_makes_what_the_batch_run_makes(
    stream, windowing, each, grouped, slots, seed, failing
) -> None:
    elements, script = stream
    each, grouped = sound(windowing, each, grouped)
    batch = beam.Pipeline(options=PipelineOptions([]))
    build(batch, created(elements), windowing, each, grouped)
    expected = results(run_in_memory(batch, 2))

    streaming = beam.Pipeline(options=PipelineOptions([]))
    build(streaming, streamed(script), windowing, each, grouped)
    rounds = run_in_rounds(streaming, slots=slots, fail=undoing(seed, failing), attempts=ATTEMPTS)
    assert results(rounds.schedule.reports()) == expected
