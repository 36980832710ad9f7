"""Sources that come with Beam, in rounds."""

from __future__ import annotations

import random
import time
from collections import Counter

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms.periodicsequence import PeriodicImpulse, PeriodicSequence
from apache_beam.utils.timestamp import Timestamp

from sparkdrain.errors import TruncatedInput
from tests.support.in_memory_rounds import run_in_rounds
from tests.support.restrictions import Poll

SEEN: list = []
HEADERS: list = []


@pytest.fixture(autouse=True)
def _forget():
    SEEN.clear()
    HEADERS.clear()


def new_pipeline() -> beam.Pipeline:
    return beam.Pipeline(options=PipelineOptions([]))


class Note(beam.DoFn):
    def process(self, element):
        SEEN.append((HEADERS[-1].number if HEADERS else 0, element))


class FailNowAndThen:
    def __init__(self, chance=0.15):
        self.undone = 0
        self._chance = chance
        self._random = random.Random(5)

    def __call__(self, header):
        HEADERS.append(header)
        lost = self._chance and not self.undone and header.number == 3 and header.slot == 1
        if lost or self._random.random() < self._chance:
            self.undone += 1
            message = "lost"
            raise TruncatedInput(message)


def test_periodic_impulse_is_on_time_and_ends():
    start = Timestamp.now()
    pipeline = new_pipeline()
    _ = (
        pipeline
        | PeriodicImpulse(start, start + 1, 0.25, apply_windowing=True)
        | beam.Map(lambda tick: ("tick", tick))
        | beam.GroupByKey()
        | beam.MapTuple(lambda _, ticks: len(list(ticks)))
        | beam.ParDo(Note())
    )
    rounds = run_in_rounds(pipeline)
    assert sum(element for _, element in SEEN) == 4
    # An idle source is left alone until its time has come.
    assert len(rounds.rounds) < 25


def test_a_periodic_sequence_catches_up_in_rounds():
    now = time.time()
    pipeline = new_pipeline()
    _ = (
        pipeline
        | beam.Create([(now - 3000, now - 1000, 1)])
        | PeriodicSequence()
        | beam.ParDo(Note())
    )
    run_in_rounds(pipeline, elements=100, fail=FailNowAndThen(chance=0))
    assert len({element for _, element in SEEN}) == 2000
    assert len({number for number, _ in SEEN}) > 3


def test_a_text_file_is_read_in_rounds(tmp_path):
    lines = [f"line {number}" for number in range(5000)]
    (tmp_path / "lines.txt").write_text("".join(f"{line}\n" for line in lines))
    rounds = FailNowAndThen()
    pipeline = new_pipeline()
    _ = (
        pipeline
        | beam.io.ReadFromText(str(tmp_path / "lines.txt"))
        | beam.Map(lambda line: (line, 1))
        | beam.CombinePerKey(sum)
        | beam.ParDo(Note())
    )
    run_in_rounds(pipeline, elements=10, fail=rounds, attempts=50)
    assert rounds.undone
    assert sorted({element for _, element in SEEN}) == sorted((line, 1) for line in lines)


def test_a_text_file_keeps_to_the_budget_of_a_round(tmp_path):
    (tmp_path / "lines.txt").write_text("".join(f"line {n}\n" for n in range(20_000)))
    pipeline = new_pipeline()
    _ = pipeline | beam.io.ReadFromText(str(tmp_path / "lines.txt")) | beam.ParDo(Note())
    run_in_rounds(pipeline, elements=500, slots=1, fail=FailNowAndThen(chance=0))
    assert len({element for _, element in SEEN}) == len(SEEN) == 20_000
    made = Counter(number for number, _ in SEEN)
    allowed = {header.number: header.elements for header in HEADERS}
    # It splits at a byte, so the line in which that falls is read to its end, or one more.
    assert all(count <= 1.1 * allowed[number] + 20 for number, count in made.items())


def test_a_file_that_cannot_be_split_is_read_in_one_round(tmp_path):
    path = tmp_path / "lines.txt.gz"
    pipeline = new_pipeline()
    _ = (
        pipeline
        | beam.Create([f"line {n}" for n in range(3000)])
        | beam.io.WriteToText(str(path), shard_name_template="")
    )
    pipeline.run().wait_until_finish()
    pipeline = new_pipeline()
    _ = pipeline | beam.io.ReadFromText(str(path)) | beam.ParDo(Note())
    run_in_rounds(pipeline, elements=100, fail=FailNowAndThen(chance=0))
    assert len({element for _, element in SEEN}) == len(SEEN) == 3000
    assert len({number for number, _ in SEEN}) == 1


def test_bounded_and_unbounded_sources_meet_in_one_pipeline():
    pipeline = new_pipeline()
    now = int(time.time())
    bounded = pipeline | "Few" >> beam.Create([-1, -2])
    polled = pipeline | "Range" >> beam.Create([(0, 5, 0)]) | beam.ParDo(Poll())
    periodic = (
        pipeline
        | "Times" >> beam.Create([(now - 5, now, 1)])
        | PeriodicSequence()
        | beam.Map(lambda tick: int(tick) - now)
    )
    _ = (bounded, polled, periodic) | beam.Flatten() | beam.ParDo(Note())
    run_in_rounds(pipeline)
    assert sorted(element for _, element in SEEN) == sorted(
        [-1, -2, 0, 1, 2, 3, 4, -5, -4, -3, -2, -1]
    )
