"""However rounds, slots, delays and failures fall: the same result, and nothing too late."""

from __future__ import annotations

import random
from collections import Counter

import apache_beam as beam
from apache_beam.io.watermark_estimators import ManualWatermarkEstimator
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms.window import FixedWindows, TimestampedValue
from apache_beam.utils.timestamp import Duration, Timestamp
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.in_memory_rounds import run_in_rounds
from tests.support.restrictions import LeapingClock, Ranges
from tests.support.undoing import ATTEMPTS, undoing

WIDTH = 20
SEEN: dict = {}


class Moody(beam.DoFn):
    """For (first, after the last, mood): numbers at their second; mood says when it rests."""

    @beam.DoFn.unbounded_per_element()
    def process(
        self,
        element,
        tracker=beam.DoFn.RestrictionParam(Ranges()),
        estimator=beam.DoFn.WatermarkEstimatorParam(ManualWatermarkEstimator.default_provider()),
    ):
        position = tracker.current_restriction().start
        mood = random.Random(f"{element[2]} {position}")
        while tracker.try_claim(position):
            yield TimestampedValue(position, Timestamp(position))
            position += 1
            if mood.random() < 0.3:
                estimator.set_watermark(Timestamp(position))
            if mood.random() < 0.1:
                delay = mood.choice([None, Duration(0), Duration(3), Duration(500)])
                tracker.defer_remainder(delay)
                return


class Keep(beam.DoFn):
    """What comes last for a window counts: a round may be undone after it was here."""

    def process(self, pair, window=beam.DoFn.WindowParam):
        key, numbers = pair
        SEEN[key, int(window.start)] = sorted(numbers)


ranges = st.lists(
    st.tuples(st.integers(0, 300), st.integers(1, 300), st.integers(0, 99)), min_size=1, max_size=4
)


@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
@given(ranges, st.integers(1, 3), st.sampled_from([0, 0.1, 0.25]), st.integers(0, 999))
def test_numbers_arrive_once_and_in_time(ranges, slots, chance, seed):
    SEEN.clear()
    elements = [(start, start + size, mood) for start, size, mood in ranges]

    pipeline = beam.Pipeline(options=PipelineOptions([]))
    _ = (
        pipeline
        | beam.Create(elements)
        | beam.ParDo(Moody())
        | beam.WindowInto(FixedWindows(WIDTH))
        | beam.Map(lambda number: (number % 3, number))
        | beam.GroupByKey()
        | beam.ParDo(Keep())
    )
    rounds = run_in_rounds(
        pipeline,
        slots=slots,
        fail=undoing(seed, chance),
        attempts=ATTEMPTS,
        clock=LeapingClock(),
        seconds=0.01,
        elements=seed,
    )
    expected: dict = {}
    for start, stop, _ in elements:
        for number in range(start, stop):
            window = number - number % WIDTH
            expected.setdefault((number % 3, window), []).append(number)
    assert {where: sorted(numbers) for where, numbers in expected.items()} == SEEN
    assert not sum(report.dropped for report in rounds.rounds[-1])
    assert Counter(hold for report in rounds.rounds[-1] for hold in report.holds) == Counter()
