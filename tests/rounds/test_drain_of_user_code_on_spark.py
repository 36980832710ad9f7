"""What a drain does to user code, on a real Spark: marks, hooks, timers without end."""

from __future__ import annotations

import time
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.metrics import Metrics, MetricsFilter
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.runner import PipelineState
from apache_beam.transforms import userstate
from apache_beam.transforms.periodicsequence import PeriodicImpulse
from apache_beam.transforms.window import FixedWindows, GlobalWindow
from apache_beam.utils.timestamp import MAX_TIMESTAMP
from apache_beam.utils.windowed_value import WindowedValue

from sparkdrain import SparkDrainRunner
from sparkdrain.drain import caused_by_drain

pytestmark = pytest.mark.spark

SECONDS = 90
REPEATS = 3
SLOTS = 2


class Counts(beam.DoFn):
    """Counts what it sees, and what of that is there because of the drain."""

    def __init__(self, name: str) -> None:
        self._name = name

    def process(self, element):
        Metrics.counter("drained", self._name + " caused" * caused_by_drain()).inc()
        yield element

    def on_drain(self):
        Metrics.counter("drained", self._name + " told").inc()
        if self._name == "elements":  # the others are in other windows
            yield WindowedValue("told", MAX_TIMESTAMP, (GlobalWindow(),))


class Ticks(beam.DoFn):
    TICK = userstate.TimerSpec("tick", userstate.TimeDomain.WATERMARK)

    def process(self, element, tick=beam.DoFn.TimerParam(TICK)):
        tick.set(MAX_TIMESTAMP.seconds() - 10**6)

    @userstate.on_timer(TICK)
    def again(self, time=beam.DoFn.TimestampParam, tick=beam.DoFn.TimerParam(TICK)):
        yield "tick"
        tick.set(time + 1)


def build(pipeline: beam.Pipeline) -> None:
    impulses = pipeline | PeriodicImpulse(fire_interval=0.05)
    _ = (
        impulses
        | beam.WindowInto(FixedWindows(10**8))
        | beam.Map(lambda time: (0, time))
        | beam.GroupByKey()
        | "panes" >> beam.ParDo(Counts("panes")).with_output_types(Any)
    )
    _ = (
        impulses
        | "one key" >> beam.Map(lambda time: ("key", time))
        | beam.ParDo(Ticks())
        | "ticks" >> beam.ParDo(Counts("ticks")).with_output_types(Any)
    )
    _ = (
        impulses
        | "elements" >> beam.ParDo(Counts("elements")).with_output_types(Any)
        | beam.ParDo(Told())
    )


class Told(beam.DoFn):
    def process(self, element):
        if element == "told":
            Metrics.counter("drained", "passed on").inc()


def counted(result) -> dict[str, int]:
    found = result.metrics().query(MetricsFilter().with_namespace("drained"))["counters"]
    return {counter.key.metric.name: counter.committed for counter in found}


def test_user_code_sees_its_drain_and_a_timer_without_end_is_cut_off():
    flags = ["--spark_master_url=local[2]", "--progress=off", f"--slots={SLOTS}"]
    options = PipelineOptions([*flags, f"--drain_timer_repeats={REPEATS}"])
    pipeline = beam.Pipeline(SparkDrainRunner(), options=options)
    build(pipeline)
    result = pipeline.run()
    end = time.monotonic() + SECONDS
    while not counted(result).get("elements"):
        assert time.monotonic() < end
        time.sleep(0.1)
    result.drain()
    assert result.wait_until_finish() == PipelineState.DRAINED
    told = counted(result)
    assert told.pop("elements") > 0
    assert told.pop("elements told") == told.pop("passed on") == SLOTS
    assert told == {
        "panes caused": 1,
        "panes told": SLOTS,
        "ticks caused": 1 + REPEATS,
        "ticks told": SLOTS,
    }
