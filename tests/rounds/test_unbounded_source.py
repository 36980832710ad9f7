"""Beam's UnboundedSource in rounds. Beam has none before 2.76."""

from __future__ import annotations

import random

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms.window import FixedWindows

from sparkdrain.errors import TruncatedInput
from sparkdrain.rounds.driver.durable import DurableJob
from sparkdrain.rounds.slots import service
from tests.support.at_once import AtOnce
from tests.support.drained import emitted_when_drained
from tests.support.in_memory_rounds import run_in_rounds
from tests.support.restrictions import LeapingClock

sources = pytest.importorskip(
    "apache_beam.io.unbounded_source", reason="Beam has no UnboundedSource before 2.76"
)

SEEN: list = []
ACKNOWLEDGED: list = []


@pytest.fixture(autouse=True)
def _forget():
    SEEN.clear()
    ACKNOWLEDGED.clear()


class Note(beam.DoFn):
    def process(self, element):
        SEEN.append(element)


class FailNowAndThen:
    def __init__(self):
        self.undone = 0
        self._random = random.Random(5)

    def __call__(self, header):
        lost = not self.undone and header.number == 3 and header.slot == 1
        if lost or self._random.random() < 0.15:
            self.undone += 1
            message = "lost"
            raise TruncatedInput(message)


class Acknowledging(sources.UnboundedCountingSource):
    """Beam's own source for tests; tells what of it was finalized."""

    def create_reader(self, options, checkpoint_mark):
        reader = super().create_reader(options, checkpoint_mark)
        reader._finalize_log = ACKNOWLEDGED
        return reader


@pytest.mark.parametrize("splittable", [False, True])
def test_an_unbounded_source_is_read_once_and_to_its_end(splittable):
    rounds = FailNowAndThen()
    pipeline = beam.Pipeline(options=PipelineOptions([]))
    source = sources.UnboundedCountingSource(2000, is_splittable=splittable)
    _ = (
        pipeline
        | beam.io.Read(source)
        | beam.WindowInto(FixedWindows(100))
        | beam.Map(lambda number: (number, 1))
        | beam.CombinePerKey(sum)
        | beam.ParDo(Note())
    )
    run_in_rounds(pipeline, elements=10, fail=rounds, attempts=50, seconds=1)
    assert rounds.undone
    assert sorted(set(SEEN)) == [(number, 1) for number in range(2000)]


def test_an_unbounded_source_is_acknowledged_once_its_round_was_committed():
    pipeline = beam.Pipeline(options=PipelineOptions([]))
    _ = pipeline | beam.io.Read(Acknowledging(1000)) | beam.ParDo(Note())
    run_in_rounds(pipeline, elements=100, slots=1)
    assert list(range(1000)) == SEEN
    assert len(ACKNOWLEDGED) > 3
    assert sorted(set(ACKNOWLEDGED)) == ACKNOWLEDGED
    assert ACKNOWLEDGED[-1] == 999


@pytest.mark.parametrize("durable", [False, True])
def test_a_drained_source_is_acknowledged_up_to_what_came_out_and_no_further(
    durable, tmp_path, monkeypatch
):
    monkeypatch.setattr(service, "Uploader", AtOnce)
    kept = DurableJob.at(str(tmp_path), "job", "run", {}, 1, 2)
    before, rest = emitted_when_drained(
        lambda p: p | beam.io.Read(Acknowledging(10**9)),
        6,
        clock=LeapingClock(),
        slots=1,
        elements=50,
        **({"durable": kept} if durable else {}),
    )
    out = before + rest
    assert out == list(range(len(out)))
    assert len(out) > 2
    assert ACKNOWLEDGED[-1] == out[-1]
