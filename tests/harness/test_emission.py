"""What a splittable DoFn yields is the same, whether it goes through a compiled chain or not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.io.watermark_estimators import MonotonicWatermarkEstimator
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.pvalue import TaggedOutput
from apache_beam.transforms.core import WatermarkEstimatorProvider
from apache_beam.transforms.window import (
    FixedWindows,
    IntervalWindow,
    SlidingWindows,
    TimestampedValue,
    WindowedValue,
)
from apache_beam.utils.timestamp import Timestamp

from tests.support.in_memory_rounds import DEFAULTS, element_counts, run_in_rounds
from tests.support.restrictions import Ranges

SEEN: list[Any] = []


@pytest.fixture(autouse=True)
def _forget():
    SEEN.clear()


class Note(beam.DoFn):
    def __init__(self, name):
        self._name = name

    def process(
        self,
        element,
        timestamp=beam.DoFn.TimestampParam,
        window=beam.DoFn.WindowParam,
        pane=beam.DoFn.PaneInfoParam,
    ):
        SEEN.append((self._name, element, timestamp.micros, str(window), pane.index))


def claimed(tracker):
    position = tracker.current_restriction().start
    while tracker.try_claim(position):
        yield position
        position += 1


class Mixed(beam.DoFn):
    """Results of every form, times that come again, and two at the same time in a row."""

    def process(self, element, tracker=beam.DoFn.RestrictionParam(Ranges())):
        for position in claimed(tracker):
            time = Timestamp(position // 2 * 7 % 40)
            match position % 5:
                case 0:
                    yield position
                case 1 | 2:
                    yield TimestampedValue(position, time)
                case 3:
                    yield TaggedOutput("odd", TimestampedValue(position, time))
                case 4:
                    yield WindowedValue(position, time, [IntervalWindow(0, 50 + position)])


class Listed(beam.DoFn):
    """Not a generator, and nothing for some restrictions."""

    def process(self, element, tracker=beam.DoFn.RestrictionParam(Ranges())):
        if element[0] % 2:
            list(claimed(tracker))
            return None
        return list(claimed(tracker))


class Windowed(beam.DoFn):
    def process(
        self,
        element,
        window=beam.DoFn.WindowParam,
        tracker=beam.DoFn.RestrictionParam(Ranges()),
    ):
        for position in claimed(tracker):
            yield position, str(window)


class Word(beam.DoFn):
    def process(self, element, tracker=beam.DoFn.RestrictionParam(Ranges())):
        list(claimed(tracker))
        return "word"


class Observing(MonotonicWatermarkEstimator):
    def observe_timestamp(self, timestamp):
        SEEN.append(("observed", timestamp.micros))
        super().observe_timestamp(timestamp)


class Observers(WatermarkEstimatorProvider):
    def __init__(self, kind):
        self._kind = kind

    def initial_estimator_state(self, element, restriction):
        return Timestamp(0)

    def create_watermark_estimator(self, state):
        return self._kind(state)


class Observed(beam.DoFn):
    def process(
        self,
        element,
        tracker=beam.DoFn.RestrictionParam(Ranges()),
        estimator=beam.DoFn.WatermarkEstimatorParam(Observers(Observing)),
    ):
        for position in claimed(tracker):
            result = TimestampedValue(position, Timestamp(position // 2))
            yield TaggedOutput("odd", result) if position % 2 else result


class Monotonic(beam.DoFn):
    @beam.DoFn.unbounded_per_element()
    def process(
        self,
        element,
        tracker=beam.DoFn.RestrictionParam(Ranges()),
        estimator=beam.DoFn.WatermarkEstimatorParam(Observers(MonotonicWatermarkEstimator)),
    ):
        position = tracker.current_restriction().start
        for end in (position + 1, position + 2):
            if tracker.try_claim(end - 1):
                yield TimestampedValue("all", Timestamp(10 * end))
        tracker.defer_remainder()


def mixed(pipeline):
    both = pipeline | beam.Create([(0, 40)]) | beam.ParDo(Mixed()).with_outputs("odd", main="main")
    _ = both.odd | "odd" >> beam.ParDo(Note("odd"))
    _ = both.main | "main" >> beam.ParDo(Note("main"))
    _ = both.main | beam.WindowInto(FixedWindows(10)) | "tens" >> beam.ParDo(Note("tens"))
    _ = both.main | beam.Map(lambda n: -n) | "less" >> beam.ParDo(Note("less"))


def listed(pipeline):
    _ = pipeline | beam.Create([(0, 5), (7, 9), (20, 21)]) | beam.ParDo(Listed()) | note()


def in_windows(pipeline):
    _ = (
        pipeline
        | beam.Create([(0, 5), (7, 9)])
        | beam.Map(lambda element: TimestampedValue(element, element[1]))
        | beam.WindowInto(SlidingWindows(10, 5))
        | beam.ParDo(Windowed())
        | note()
    )


def in_windows_of_its_own(pipeline):
    both = (
        pipeline
        | beam.Create([(0, 30)])
        | beam.WindowInto(FixedWindows(5))
        | beam.ParDo(Mixed()).with_outputs("odd", main="main")
    )
    _ = both.main | note()


def in_several_windows(pipeline):
    both = (
        pipeline
        | beam.Create([(0, 30)])
        | beam.WindowInto(SlidingWindows(10, 5))
        | beam.ParDo(Mixed()).with_outputs("odd", main="main")
    )
    _ = both.main | beam.Map(lambda n: n + 1) | note()


def observed(pipeline):
    both = (
        pipeline | beam.Create([(0, 20)]) | beam.ParDo(Observed()).with_outputs("odd", main="main")
    )
    _ = both.main | "main" >> beam.ParDo(Note("main"))
    _ = both.odd | "odd" >> beam.ParDo(Note("odd"))


def monotonic(pipeline):
    _ = (
        pipeline
        | beam.Create([(0, 12)])
        | beam.ParDo(Monotonic())
        | beam.WindowInto(FixedWindows(30))
        | beam.Map(lambda word: (word, 1))
        | beam.CombinePerKey(sum)
        | note()
    )


def note():
    return beam.ParDo(Note(""))


def run(build, *, compiled):
    pipeline = beam.Pipeline(options=PipelineOptions([]))
    build(pipeline)
    options = replace(DEFAULTS, compiled=compiled)
    rounds = run_in_rounds(pipeline, slots=1, options=options, seconds=10)
    seen = [*SEEN]
    SEEN.clear()
    return seen, rounds


@pytest.mark.parametrize(
    "build",
    [
        mixed,
        listed,
        in_windows,
        in_windows_of_its_own,
        in_several_windows,
        observed,
        monotonic,
    ],
)
def test_results_and_counts_are_those_of_beam(build):
    seen, rounds = run(build, compiled=True)
    by_beam, rounds_of_beam = run(build, compiled=False)
    assert by_beam
    assert seen == by_beam
    assert element_counts(rounds) == element_counts(rounds_of_beam)


def test_a_word_is_not_taken_for_its_letters():
    def build(pipeline):
        _ = pipeline | beam.Create([(0, 3)]) | beam.ParDo(Word()) | note()

    with pytest.raises(TypeError, match="Returning a str from a ParDo or FlatMap is not allowed"):
        run(build, compiled=True)


def test_an_error_behind_the_source_names_its_own_step():
    def build(pipeline):
        both = (
            pipeline | beam.Create([(0, 9)]) | beam.ParDo(Mixed()).with_outputs("odd", main="main")
        )
        _ = both.main | "Invert" >> beam.Map(lambda n: 1 / (n - 5)) | note()

    with pytest.raises(Exception, match=r"division by zero.*while running 'Invert'"):
        run(build, compiled=True)
