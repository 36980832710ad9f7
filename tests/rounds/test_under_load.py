"""Whole jobs on a machine whose time is told by what they do."""

from __future__ import annotations

from itertools import pairwise
from statistics import fmean

import apache_beam as beam
import pytest
from apache_beam.io.watermark_estimators import ManualWatermarkEstimator
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms.window import FixedWindows, TimestampedValue
from apache_beam.utils.timestamp import Timestamp

from sparkdrain.rounds.driver.pace import Pace
from tests.support.in_memory_rounds import run_in_rounds
from tests.support.restrictions import UpTo

TARGET = 0.2


class Machine:
    """Time passes while somebody works, or waits; a clock and a stopwatch."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.slowness = 1.0
        self.rates: list[tuple[float, float]] = []
        self.taken: list[tuple[float, int, float]] = []
        """When each round began, how much was read by then, and how much waited."""

    def works(self, seconds: float) -> None:
        self.seconds += seconds * self.slowness

    def stopwatch(self) -> float:
        return self.seconds

    def now(self) -> int:
        return round(self.seconds * 1e6)

    def wait_until(self, then, interrupt) -> None:
        del interrupt
        self.seconds = max(self.seconds, then / 1e6)

    def arrived(self) -> int:
        """How many have come, at so many a second from a time on."""
        ends = [time for time, _ in self.rates[1:]] + [float("inf")]
        return int(
            sum(
                rate * max(0.0, min(end, self.seconds) - begin)
                for (begin, rate), end in zip(self.rates, ends, strict=True)
            )
        )


MACHINE = Machine()
EACH = 1e-4
TOTAL: list[int] = []


class Arrivals(beam.DoFn):
    """What has arrived at the machine, each at its time; as many as the element says."""

    @beam.DoFn.unbounded_per_element()
    def process(
        self,
        element,
        tracker=beam.DoFn.RestrictionParam(UpTo()),
        estimator=beam.DoFn.WatermarkEstimatorParam(ManualWatermarkEstimator.default_provider()),
    ):
        position = tracker.current_restriction().start
        while position < element:
            if position >= MACHINE.arrived():
                tracker.defer_remainder()
                return
            if not tracker.try_claim(position):
                return
            MACHINE.works(EACH)
            time = Timestamp(micros=MACHINE.now())
            yield TimestampedValue(position % 10, time)
            estimator.set_watermark(time)
            position += 1
            MACHINE.read = position


class Note(beam.DoFn):
    def process(self, element):
        TOTAL.append(element[1])


def counts(elements: int) -> list[tuple[float, int, float]]:
    """Count what arrives in windows of a second; rounds as ``Machine.taken`` has them."""
    MACHINE.read = 0
    pipeline = beam.Pipeline(options=PipelineOptions([]))
    _ = (
        pipeline
        | beam.Create([elements])
        | beam.ParDo(Arrivals())
        | beam.WindowInto(FixedWindows(1))
        | beam.combiners.Count.PerElement()
        | beam.ParDo(Note())
    )

    def began(header) -> None:
        # What a slot does however little there is, beside what each element costs it.
        MACHINE.works(0.01)
        if header.number > len(MACHINE.taken):
            MACHINE.taken.append((MACHINE.seconds, MACHINE.read, MACHINE.arrived() - MACHINE.read))

    run_in_rounds(
        pipeline,
        slots=1,
        fail=began,
        clock=MACHINE,
        stopwatch=MACHINE.stopwatch,
        pace=Pace(TARGET),
    )
    assert sum(TOTAL) == elements, MACHINE.taken[-3:]
    return MACHINE.taken


@pytest.fixture(autouse=True)
def _new_machine():
    MACHINE.__init__()
    TOTAL.clear()


def read_in(rounds) -> list[int]:
    return [after[1] - before[1] for before, after in pairwise(rounds)]


def lengths(rounds) -> list[float]:
    return [after[0] - before[0] for before, after in pairwise(rounds)]


def between(rounds, begin: float, end: float):
    return [r for r in rounds if begin <= r[0] < end]


def test_a_burst_of_ten_times_as_much_is_absorbed_in_rounds_of_their_length_and_worked_off():
    # 10,000 in a second are as much as can be read; 12,000 too many come in two seconds.
    MACHINE.rates = [(0, 800), (5, 8000), (7, 800)]
    MACHINE.slowness = 2.0
    rounds = counts(24_000)
    burst = between(rounds, 5.5, 20)
    assert max(waiting for _, _, waiting in burst) > 5_000
    assert max(read_in(rounds)) <= 2_000
    assert max(lengths(burst)) <= 3 * TARGET
    worked_off = next(time for time, _, waiting in rounds if time > 7.5 and waiting < 400)
    # 5,000 in a second at most, of which 800 are new.
    assert worked_off <= 7 + 1.5 * 12_000 / 4_200


def test_an_overloaded_machine_makes_longer_rounds_not_smaller_ones():
    MACHINE.rates = [(0, 1e9)]
    MACHINE.slowness = 10.0
    rounds = counts(15_000)
    made = read_in(rounds)[5:-1]
    assert fmean(made) * EACH >= 0.4 * fmean(lengths(rounds)[5:-1]) / MACHINE.slowness


def test_an_idle_source_costs_five_rounds_in_a_second():
    MACHINE.rates = [(0, 1000), (1, 0), (61, 1000)]
    rounds = counts(1_500)
    assert len(between(rounds, 5, 60)) <= 5 * 55 + 5
    assert rounds[-1][0] < 63
