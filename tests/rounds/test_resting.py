"""A source that has nothing to give is not asked for it round after round at full speed."""

from __future__ import annotations

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.utils.timestamp import Duration
from hypothesis import given
from hypothesis import strategies as st

from sparkdrain.rounds.sources.residuals import rest_of
from tests.support.in_memory_rounds import run_in_rounds
from tests.support.restrictions import START, LeapingClock, Poll, Ranges

SECOND = 1_000_000
NOW: list = []
SEEN: list = []


@pytest.fixture(autouse=True)
def _forget():
    NOW.clear()
    SEEN.clear()


class Waiting(beam.DoFn):
    """An element (first, after the last, second): its numbers at that second, nothing before.

    Asks to be called again at once.
    """

    def __init__(self, *, claims: bool = False) -> None:
        self._claims = claims

    @beam.DoFn.unbounded_per_element()
    def process(self, element, tracker=beam.DoFn.RestrictionParam(Ranges())):
        position = tracker.current_restriction().start
        if NOW[-1] < element[2]:
            if not self._claims or tracker.try_claim(position):
                tracker.defer_remainder()
            return
        while tracker.try_claim(position):
            yield position
            position += 1


class Exact(Waiting):
    @beam.DoFn.unbounded_per_element()
    def process(self, element, tracker=beam.DoFn.RestrictionParam(Ranges())):
        if NOW[-1] < element[2]:
            tracker.defer_remainder(Duration(20))
            return
        assert tracker.try_claim(0)
        yield 0


class Note(beam.DoFn):
    def process(self, element):
        SEEN.append((element, NOW[-1]))


def run(*sources):
    pipeline = beam.Pipeline(options=PipelineOptions([]))
    for number, (dofn, element) in enumerate(sources):
        _ = (
            pipeline
            | f"Create{number}" >> beam.Create([element], reshuffle=False)
            | f"Read{number}" >> beam.ParDo(dofn)
            | f"Note{number}" >> beam.ParDo(Note())
        )
    tell = lambda header: NOW.append(header.now / SECOND - START)
    return run_in_rounds(pipeline, clock=LeapingClock(), fail=tell)


@pytest.mark.parametrize("claims", [False, True])
def test_who_has_nothing_is_asked_five_times_a_second_and_gives_what_comes_then(claims):
    last = 1000 if claims else 3
    rounds = run((Waiting(claims=claims), (0, last, 60)))
    assert len(rounds.rounds) < 5 * 60 + 20
    assert NOW[0] == 0
    numbers, times = zip(*SEEN, strict=True)
    assert numbers == tuple(range(last - len(SEEN), last))
    assert {60 <= time <= 60.2 for time in times} == {True}


def test_many_that_rest_wake_up_together():
    one, many = (run(*[(Waiting(), (0, 1, 30)) for _ in range(count)]).rounds for count in (1, 10))
    assert len(many) <= len(one) + 5


def test_who_gives_something_each_time_goes_on_at_once():
    run((Poll(), (0, 50, 0)))
    assert list(SEEN) == [(number, 0) for number in range(50)]


def test_who_says_when_to_go_on_is_asked_then():
    rounds = run((Exact(), (0, 1, 30)))
    assert list(SEEN) == [(0, pytest.approx(40, abs=0.5))]
    assert len(rounds.rounds) < 6


@given(st.integers(0, 1 << 52), st.integers(1, 20))
def test_a_rest_grows_to_a_fifth_of_a_second(now, idle):
    assert 0 < rest_of(now, idle) <= min(200_000, 5_000 << (idle - 1))
    assert rest_of(now, 0) == 0
