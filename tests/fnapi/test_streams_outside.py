"""Streaming jobs on Spark whose stages run in the program itself, by LOOPBACK."""

from __future__ import annotations

import threading

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.transforms import userstate, window
from apache_beam.utils.timestamp import Timestamp

from tests.support.restrictions import Count

PLACES: set = set()


class _Total(beam.DoFn):
    """The sum of a window, told at its end."""

    TOTAL = userstate.CombiningValueStateSpec("total", sum)
    END = userstate.TimerSpec("end", userstate.TimeDomain.WATERMARK)

    def process(
        self,
        pair,
        of=beam.DoFn.WindowParam,
        total=beam.DoFn.StateParam(TOTAL),
        end=beam.DoFn.TimerParam(END),
    ):
        PLACES.add(threading.get_ident())
        total.add(pair[1])
        end.set(of.end)

    @userstate.on_timer(END)
    def on_end(self, key=beam.DoFn.KeyParam, total=beam.DoFn.StateParam(TOTAL)):
        yield key, total.read()


def _timed(number):
    return window.TimestampedValue((number % 2, number), Timestamp(number))


@pytest.mark.spark
def test_a_stream_in_the_program_itself_has_state_timers_windows_and_restrictions():
    options = PipelineOptions(
        runner="SparkDrainRunner",
        spark_master_url="local[2]",
        streaming=True,
        environment_type="LOOPBACK",
    )
    PLACES.clear()
    with beam.Pipeline(options=options) as pipeline:
        numbers = pipeline | beam.Create([(0, 10), (10, 20)]) | beam.ParDo(Count())
        windows = numbers | beam.Map(_timed) | beam.WindowInto(window.FixedWindows(10))
        assert_that(
            windows | beam.ParDo(_Total()),
            equal_to([(0, 20), (1, 25), (0, 70), (1, 75)]),
            label="by state",
        )
        assert_that(
            windows | beam.CombinePerKey(sum),
            equal_to([(0, 20), (1, 25), (0, 70), (1, 75)]),
            label="by windows",
        )
    assert PLACES
