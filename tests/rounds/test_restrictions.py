from __future__ import annotations

import logging
import random
import time
from collections import Counter

import apache_beam as beam
import pytest
from apache_beam.io.iobase import WatermarkEstimator
from apache_beam.io.watermark_estimators import ManualWatermarkEstimator
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms.core import WatermarkEstimatorProvider
from apache_beam.transforms.window import FixedWindows, SlidingWindows, TimestampedValue
from apache_beam.utils.timestamp import Duration, Timestamp

from sparkdrain.errors import TruncatedInput
from sparkdrain.rounds.sources import restrictions
from tests.support.in_memory_rounds import run_in_rounds
from tests.support.restrictions import START, Count, LeapingClock, Poll, Ranges

SEEN: list = []
HEADERS: list = []
SECOND = 1_000_000


@pytest.fixture(autouse=True)
def _forget():
    SEEN.clear()
    HEADERS.clear()


def new_pipeline() -> beam.Pipeline:
    return beam.Pipeline(options=PipelineOptions([]))


class Note(beam.DoFn):
    """With the second, since the start, in whose round it came."""

    def process(self, element, timestamp=beam.DoFn.TimestampParam):
        del timestamp
        SEEN.append((element, HEADERS[-1].now / SECOND - START if HEADERS else 0))


class Tally(beam.DoFn):
    def process(self, element):
        SEEN.append((HEADERS[-1].number, element))


class Rounds:
    """Hears of every header; may make rounds fail."""

    def __init__(self, chance=0.0, seed=7):
        self.undone = 0
        self._chance = chance
        self._random = random.Random(seed)

    def __call__(self, header):
        HEADERS.append(header)
        # Round 3 is lost in any case, after one slot has run.
        lost = self._chance and not self.undone and header.number == 3 and header.slot == 1
        if lost or self._random.random() < self._chance:
            self.undone += 1
            message = "lost"
            raise TruncatedInput(message)


def elements():
    return [element for element, _ in SEEN]


# --- budgets --------------------------------------------------------------------------------------


def test_every_element_comes_once_however_small_the_rounds_are():
    pipeline = new_pipeline()
    ranges = [(0, 1000), (1000, 2500)]
    _ = pipeline | beam.Create(ranges) | beam.ParDo(Count()) | beam.ParDo(Note())
    rounds = run_in_rounds(pipeline, elements=20)
    assert sorted(elements()) == list(range(2500))
    assert len(rounds.rounds) > 5


def test_a_round_makes_no_more_elements_than_its_budget_allows():
    pipeline = new_pipeline()
    ranges = [(0, 3000), (3000, 5000), (5000, 6000)]
    _ = pipeline | beam.Create(ranges) | beam.ParDo(Count()) | beam.ParDo(Tally())
    run_in_rounds(pipeline, elements=100, fail=Rounds(), slots=1)
    assert len(SEEN) == 6000
    made = Counter(number for number, _ in SEEN)
    allowed = {header.number: header.elements for header in HEADERS}
    # One claim is granted to each restriction, whatever is left.
    assert all(count <= allowed[number] + 3 for number, count in made.items())
    assert len(made) > 8


def test_all_restrictions_get_on_in_every_round():
    pipeline = new_pipeline()
    ranges = [(0, 1000), (1000, 2000), (2000, 3000), (3000, 4000)]
    _ = pipeline | beam.Create(ranges) | beam.ParDo(Count()) | beam.ParDo(Tally())
    run_in_rounds(pipeline, elements=400, fail=Rounds(), slots=1, seconds=5)
    first = min(number for number, _ in SEEN)
    assert {element // 1000 for number, element in SEEN if number == first} == {0, 1, 2, 3}


def test_two_sources_share_the_budget_of_a_round():
    pipeline = new_pipeline()
    for name, start in ("A", 0), ("B", 100_000):
        _ = (
            pipeline
            | f"Create{name}" >> beam.Create([(start, start + 4000)])
            | f"Count{name}" >> beam.ParDo(Count())
            | f"Tally{name}" >> beam.ParDo(Tally())
        )
    run_in_rounds(pipeline, elements=400, fail=Rounds(), slots=1, seconds=5)
    rounds = sorted({number for number, _ in SEEN})
    both = Counter(
        number for number, _ in {(number, element >= 100_000) for number, element in SEEN}
    )
    assert len(SEEN) == 8000
    assert all(both[number] == 2 for number in rounds[:5])


def test_a_burst_is_absorbed_in_rounds_of_the_usual_size():
    class Burst(Poll):
        """Tenfold, but for the first and the last number."""

        def process(self, element, tracker=beam.DoFn.RestrictionParam(Ranges())):
            position = tracker.current_restriction().start
            while tracker.try_claim(position):
                yield position
                position += 1
                if position in (500, 5500):
                    tracker.defer_remainder(Duration(element[2]))
                    return

    pipeline = new_pipeline()
    _ = pipeline | beam.Create([(0, 6000, 10)]) | beam.ParDo(Burst()) | beam.ParDo(Tally())
    run_in_rounds(pipeline, elements=500, fail=Rounds(), slots=1, clock=LeapingClock())
    assert sorted(element for _, element in SEEN) == list(range(6000))
    made = Counter(number for number, _ in SEEN)
    allowed = {header.number: header.elements for header in HEADERS}
    assert all(count <= allowed[number] + 1 for number, count in made.items())


# --- undone rounds --------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_positions_survive_rounds_that_are_undone(seed):
    rounds = Rounds(chance=0.2, seed=seed)
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
    run_in_rounds(pipeline, elements=10, fail=rounds, attempts=50, seconds=1)
    assert rounds.undone
    assert sorted(set(elements())) == [(key, 250) for key in range(10)]


# --- time -----------------------------------------------------------------------------------------


def test_a_restriction_goes_on_when_it_asked_for():
    pipeline = new_pipeline()
    _ = pipeline | beam.Create([(0, 4, 10)]) | beam.ParDo(Poll()) | beam.ParDo(Note())
    run_in_rounds(pipeline, fail=Rounds(), clock=LeapingClock())
    # Beam subtracts what the DoFn took after it asked.
    assert list(SEEN) == [(n, pytest.approx(10 * n, abs=0.5)) for n in range(4)]


def test_watermarks_of_a_source_fire_windows():
    pipeline = new_pipeline()
    _ = (
        pipeline
        | beam.Create([(0, 10, 1)])
        | beam.ParDo(Poll())
        | beam.WindowInto(FixedWindows(5))
        | beam.Map(lambda number: ("all", number))
        | beam.GroupByKey()
        | beam.MapTuple(lambda _, numbers: sorted(numbers))
        | beam.ParDo(Note())
    )
    run_in_rounds(pipeline, fail=Rounds(), clock=LeapingClock())
    assert list(SEEN) == [
        ([0, 1, 2, 3, 4], pytest.approx(4, abs=0.5)),
        ([5, 6, 7, 8, 9], pytest.approx(9, abs=0.5)),
    ]


def test_a_slow_source_holds_back_what_a_fast_one_has_finished():
    pipeline = new_pipeline()
    inputs = [
        pipeline
        | f"Create{seconds}" >> beam.Create([(0, 6, seconds)])
        | f"Poll{seconds}" >> beam.ParDo(Poll())
        for seconds in (1, 7)
    ]
    _ = (
        inputs
        | beam.Flatten()
        | beam.WindowInto(FixedWindows(3))
        | beam.Map(lambda number: ("all", number))
        | beam.GroupByKey()
        | beam.MapTuple(lambda _, numbers: sorted(numbers))
        | beam.ParDo(Note())
    )
    run_in_rounds(pipeline, fail=Rounds(), clock=LeapingClock())
    assert list(SEEN) == [
        ([0, 0, 1, 1, 2, 2], pytest.approx(14, abs=0.5)),
        ([3, 3, 4, 4, 5, 5], pytest.approx(35, abs=0.5)),
    ]


class Idle(beam.DoFn):
    """Has nothing to give, and says each second that it is a second later, until the last."""

    @beam.DoFn.unbounded_per_element()
    def process(
        self,
        element,
        tracker=beam.DoFn.RestrictionParam(Ranges()),
        estimator=beam.DoFn.WatermarkEstimatorParam(ManualWatermarkEstimator.default_provider()),
    ):
        now = estimator.current_watermark()
        seconds = 0 if now is None else now.micros // SECOND
        if seconds >= element[1]:
            tracker.try_claim(element[1])
            return
        estimator.set_watermark(Timestamp(seconds + 1))
        tracker.defer_remainder(Duration(1))
        yield from ()


def test_an_idle_source_lets_others_get_on_as_its_watermark_does():
    pipeline = new_pipeline()
    busy = pipeline | "Numbers" >> beam.Create([(0, 6, 0)]) | beam.ParDo(Poll())
    idle = pipeline | "Nothing" >> beam.Create([(0, 6)]) | beam.ParDo(Idle())
    _ = (
        (busy, idle)
        | beam.Flatten()
        | beam.WindowInto(FixedWindows(3))
        | beam.Map(lambda number: ("all", number))
        | beam.GroupByKey()
        | beam.MapTuple(lambda _, numbers: sorted(numbers))
        | beam.ParDo(Note())
    )
    rounds = run_in_rounds(pipeline, fail=Rounds(), clock=LeapingClock())
    assert list(SEEN) == [
        ([0, 1, 2], pytest.approx(2, abs=0.5)),
        ([3, 4, 5], pytest.approx(5, abs=0.5)),
    ]
    # One round for each second and each number, not more.
    assert len(rounds.rounds) < 25


def test_what_holds_the_watermark_back_is_reported():
    pipeline = new_pipeline()
    _ = pipeline | beam.Create([(0, 3, 1)]) | "Slow" >> beam.ParDo(Poll()) | beam.ParDo(Note())
    rounds = run_in_rounds(pipeline, clock=LeapingClock())
    holds = {hold for reports in rounds.rounds for report in reports for hold in report.holds}
    assert {(hold.reason, hold.time) for hold in holds} >= {("source", 1 * SECOND)}
    assert all("Slow" in hold.stage for hold in holds)


class _GoesBack(WatermarkEstimator):
    def __init__(self, state):
        self._state = state

    def observe_timestamp(self, timestamp):
        self._state = timestamp

    def current_watermark(self):
        return self._state

    def get_estimator_state(self):
        return self._state


class GoesBack(WatermarkEstimatorProvider):
    """Says that its watermark is the time of the last element, however old that is."""

    def initial_estimator_state(self, element, restriction):
        del element, restriction

    def create_watermark_estimator(self, estimator_state):
        return _GoesBack(estimator_state)


class ToAndFro(beam.DoFn):
    TIMES = (10, 50, 20, 60, 30)

    @beam.DoFn.unbounded_per_element()
    def process(
        self,
        element,
        tracker=beam.DoFn.RestrictionParam(Ranges()),
        estimator=beam.DoFn.WatermarkEstimatorParam(GoesBack()),
    ):
        del element, estimator
        position = tracker.current_restriction().start
        if tracker.try_claim(position):
            yield TimestampedValue(position, Timestamp(self.TIMES[position]))
            tracker.defer_remainder(Duration(1))


def test_a_source_whose_watermark_goes_back_is_held_and_named_once(caplog):
    pipeline = new_pipeline()
    _ = pipeline | beam.Create([(0, 5)]) | "ToAndFro" >> beam.ParDo(ToAndFro()) | beam.ParDo(Note())
    rounds = run_in_rounds(pipeline, clock=LeapingClock())
    assert elements() == [0, 1, 2, 3, 4]
    told = [record for record in caplog.records if "went back" in record.message]
    assert len(told) == 1
    assert "ToAndFro" in told[0].message
    frontiers = [report.outputs for reports in rounds.rounds for report in reports]
    assert any(50 * SECOND in outputs for outputs in frontiers)
    assert not any(20 * SECOND in outputs for outputs in frontiers)


def test_a_restriction_without_a_watermark_holds_the_time_of_its_element():
    class Untimed(beam.DoFn):
        def process(self, element, tracker=beam.DoFn.RestrictionParam(Ranges())):
            del element
            position = tracker.current_restriction().start
            if tracker.try_claim(position):
                yield position
                tracker.defer_remainder(Duration(1))

    pipeline = new_pipeline()
    _ = (
        pipeline
        | beam.Create([(0, 3)])
        | beam.Map(lambda element: TimestampedValue(element, 70))
        | beam.ParDo(Untimed())
        | beam.ParDo(Note())
    )
    rounds = run_in_rounds(pipeline, clock=LeapingClock())
    holds = {hold for reports in rounds.rounds for report in reports for hold in report.holds}
    assert {hold.time for hold in holds} == {70 * SECOND}


# --- those that do not behave ---------------------------------------------------------------------


def test_a_restriction_that_claims_nothing_for_long_is_named(caplog, monkeypatch):
    class Sleeper(beam.DoFn):
        def process(self, element, tracker=beam.DoFn.RestrictionParam(Ranges())):
            del element
            time.sleep(0.2)
            position = tracker.current_restriction().start
            while tracker.try_claim(position):
                yield position
                position += 1

    monkeypatch.setattr(restrictions, "_LEAST_PATIENCE", 0.05)
    monkeypatch.setattr(restrictions, "_PATIENCE", 1)
    pipeline = new_pipeline()
    _ = pipeline | beam.Create([(0, 3)]) | "Sleeper" >> beam.ParDo(Sleeper()) | beam.ParDo(Note())
    with caplog.at_level(logging.WARNING):
        run_in_rounds(pipeline, seconds=0.01, fail=Rounds())
    # It is not sent back to where it began just because its first claim is late.
    assert max(header.number for header in HEADERS) < 10
    assert elements() == [0, 1, 2]
    assert "Sleeper" in caplog.text
    assert "try_claim" in caplog.text


def test_what_makes_much_of_one_claim_is_interrupted_from_outside():
    class Lazy(beam.DoFn):
        def process(self, element, tracker=beam.DoFn.RestrictionParam(Ranges())):
            del element
            position = tracker.current_restriction().start
            while tracker.try_claim(position):
                end = time.monotonic() + 0.1
                while time.monotonic() < end:
                    yield position
                position += 1

    pipeline = new_pipeline()
    _ = pipeline | beam.Create([(0, 4)]) | beam.ParDo(Lazy()) | beam.ParDo(Tally())
    run_in_rounds(pipeline, seconds=0.01, fail=Rounds())
    assert {element for _, element in SEEN} == {0, 1, 2, 3}
    assert len({number for number, _ in SEEN}) == 4


def test_an_error_of_the_dofn_ends_the_job_and_names_the_step():
    class Fails(Count):
        def process(self, element, tracker=beam.DoFn.RestrictionParam(Ranges())):
            del element
            tracker.try_claim(0)
            message = "no such topic"
            raise ValueError(message)
            yield

    pipeline = new_pipeline()
    _ = pipeline | beam.Create([(0, 4)]) | "Topic" >> beam.ParDo(Fails())
    with pytest.raises(ValueError, match="no such topic"):
        run_in_rounds(pipeline)


# --- windows, side by side ------------------------------------------------------------------------


class CountInWindow(beam.DoFn):
    def process(
        self,
        element,
        window=beam.DoFn.WindowParam,
        tracker=beam.DoFn.RestrictionParam(Ranges()),
    ):
        del element
        position = tracker.current_restriction().start
        while tracker.try_claim(position):
            yield position, int(window.start)
            position += 1


def test_a_dofn_that_asks_for_the_window_processes_each_on_its_own():
    pipeline = new_pipeline()
    _ = (
        pipeline
        | beam.Create([TimestampedValue((0, 300), 7)])
        | beam.Map(lambda element: TimestampedValue(element, 7))
        | beam.WindowInto(SlidingWindows(10, 5))
        | beam.ParDo(CountInWindow())
        | beam.ParDo(Note())
    )
    run_in_rounds(pipeline, elements=10)
    assert sorted(elements()) == sorted((n, start) for n in range(300) for start in (0, 5))


def test_a_stage_may_begin_with_several_splittable_dofns():
    pipeline = new_pipeline()
    parts = [
        pipeline
        | f"Create{start}" >> beam.Create([(start, start + 500)])
        | f"Count{start}" >> beam.ParDo(Count())
        for start in (0, 500, 1000)
    ]
    _ = parts | beam.Flatten() | beam.ParDo(Note())
    run_in_rounds(pipeline, elements=50)
    assert sorted(elements()) == list(range(1500))


class PollBeside(Poll):
    @beam.DoFn.unbounded_per_element()
    def process(
        self,
        element,
        beside,
        tracker=beam.DoFn.RestrictionParam(Ranges()),
        estimator=beam.DoFn.WatermarkEstimatorParam(ManualWatermarkEstimator.default_provider()),
    ):
        for number in super().process(element, tracker, estimator):
            yield TimestampedValue((number.value, sorted(beside)), number.timestamp)


def test_side_inputs_of_a_window_stay_as_long_as_one_of_its_restrictions():
    pipeline = new_pipeline()
    beside = (
        pipeline
        | "Beside" >> beam.Create([1, 2, 31])
        | "Times" >> beam.Map(lambda number: TimestampedValue(number, number))
        | "Windows" >> beam.WindowInto(FixedWindows(10))
    )
    _ = (
        pipeline
        | beam.Create([(0, 30, 1)])
        | beam.Map(lambda element: TimestampedValue(element, 5))
        | beam.WindowInto(FixedWindows(10))
        | beam.ParDo(PollBeside(), beam.pvalue.AsList(beside))
        | beam.ParDo(Note())
    )
    run_in_rounds(pipeline, clock=LeapingClock())
    # Its watermark is far beyond its window when the last of them comes.
    assert elements() == [(number, [1, 2]) for number in range(30)]
