from __future__ import annotations

import random
from collections import Counter

import apache_beam as beam
import pytest
from apache_beam.io.restriction_trackers import OffsetRange, OffsetRestrictionTracker
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms.core import RestrictionProvider
from apache_beam.transforms.window import FixedWindows

from sparkdrain.errors import TruncatedInput
from tests.support.in_memory_rounds import run_in_rounds

SEEN: list = []
HEADERS: list = []


@pytest.fixture(autouse=True)
def _forget():
    SEEN.clear()
    HEADERS.clear()


def new_pipeline() -> beam.Pipeline:
    return beam.Pipeline(options=PipelineOptions([]))


class Ranges(RestrictionProvider):
    """For an element (start, stop), the numbers between."""

    def initial_restriction(self, element):
        return OffsetRange(*element)

    def create_tracker(self, restriction):
        return OffsetRestrictionTracker(restriction)

    def restriction_size(self, element, restriction):
        del element
        return restriction.size()


class Count(beam.DoFn):
    def process(self, element, tracker=beam.DoFn.RestrictionParam(Ranges())):
        del element
        position = tracker.current_restriction().start
        while tracker.try_claim(position):
            yield position
            position += 1


class Note(beam.DoFn):
    def process(self, element, time=beam.DoFn.TimestampParam):
        SEEN.append((element, time))


class Tally(beam.DoFn):
    def process(self, element):
        del element
        SEEN.append(HEADERS[-1])


class Rounds:
    """Hears of every header; may make rounds fail."""

    def __init__(self, chance=0.0, seed=7):
        self.undone = 0
        self._chance = chance
        self._random = random.Random(seed)

    def __call__(self, header):
        HEADERS.append(header)
        if self._random.random() < self._chance:
            self.undone += 1
            message = "lost"
            raise TruncatedInput(message)


def test_every_element_comes_once_however_small_the_rounds_are():
    pipeline = new_pipeline()
    ranges = [(0, 1000), (1000, 2500)]
    _ = pipeline | beam.Create(ranges) | beam.ParDo(Count()) | beam.ParDo(Note())
    rounds = run_in_rounds(pipeline, elements=20)
    assert sorted(element for element, _ in SEEN) == list(range(2500))
    assert len(rounds.rounds) > 5


def test_a_round_makes_no_more_elements_than_its_budget_allows():
    pipeline = new_pipeline()
    ranges = [(0, 3000), (3000, 5000), (5000, 6000)]
    _ = pipeline | beam.Create(ranges) | beam.ParDo(Count()) | beam.ParDo(Tally())
    run_in_rounds(pipeline, elements=100, fail=Rounds(), slots=1)
    assert len(SEEN) == 6000
    made = Counter(header.number for header in SEEN)
    allowed = {header.number: header.elements for header in HEADERS}
    # One claim is granted to each restriction, whatever is left.
    assert all(count <= allowed[number] + 3 for number, count in made.items())
    assert len(made) > 10


def test_positions_survive_rounds_that_are_undone():
    rounds = Rounds(chance=0.2)
    pipeline = new_pipeline()
    _ = (
        pipeline
        | beam.Create([(0, 1000), (1000, 2500)])
        | beam.ParDo(Count())
        | beam.Map(lambda number: (number % 10, 1))
        | beam.WindowInto(FixedWindows(10))
        | beam.CombinePerKey(sum)
        | beam.ParDo(Note())
    )
    run_in_rounds(pipeline, elements=10, fail=rounds, attempts=50)
    assert rounds.undone > 5
    assert sorted(element for element, _ in SEEN) == [(key, 250) for key in range(10)]
