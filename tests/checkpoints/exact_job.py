"""A job with windows, timers and stable input, which tells the world outside of its effects.

What it has made in the end, over all of its lives, shows whether something was lost or doubled.
"""

from __future__ import annotations

import json
from collections import Counter
from random import SystemRandom
from typing import TYPE_CHECKING

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.testing import test_stream
from apache_beam.transforms.window import FixedWindows, TimestampedValue

from sparkdrain.io.stable import StableParDo
from tests.support.in_memory_rounds import plan_of
from tests.support.random_pipelines import TotalAtEndOfWindow, count, streamed

if TYPE_CHECKING:
    from collections.abc import Callable

KEYS = "abcd"
EVENTS = 8
TELL: list[Callable[[object], None]] = []
"""Hears of effects; one at most."""


class Effect(beam.DoFn):
    def process(self, element):
        TELL[0](element)
        yield element


def unstable(element):
    """Another one each time, as what a service outside answers."""
    return element[0], (element[1], SystemRandom().random())


def as_record(element):
    return element[0].encode(), json.dumps(element).encode()


def exact_plan(events=EVENTS, sink=None):
    """Windows and timers behind a shuffle, and effects outside of what is not the same twice.

    Args:
        events: of each key.
        sink: takes pairs of bytes, of what is kept.
    """
    script = test_stream.TestStream()
    for event in range(events):
        elements = [TimestampedValue((key, event), event * 5) for key in KEYS]
        script = script.add_elements(elements).advance_watermark_to(event * 5)
    pipeline = beam.Pipeline(options=PipelineOptions([]))
    read = streamed(script.advance_watermark_to_infinity())(pipeline)
    windows = read | beam.WindowInto(FixedWindows(10))
    totals = windows | beam.ParDo(TotalAtEndOfWindow())
    _ = totals | "Sums" >> beam.CombinePerKey(sum) | "Totals" >> beam.Map(count)
    made = read | "Unstable" >> beam.Map(unstable)
    _ = made | StableParDo(Effect())
    _ = made | "Kept" >> beam.Map(count)
    if sink is not None:
        _ = made | "Records" >> beam.Map(as_record) | sink
    return plan_of(pipeline)


def check_exact(made, effects, *, whole, events=EVENTS) -> None:
    """What was made is of what was read, once; effects are of what was kept.

    Args:
        made: the results, by text.
        effects: what was told, as JSON.
        whole: whether everything is to be read, as it is if the job is not drained.
    """
    rows = {json.dumps(json.loads(name)): number for name, number in made.items()}
    assert set(rows.values()) <= {1}
    kept, sums = set(), Counter()
    read = Counter()
    for row in map(json.loads, rows):
        key, value, *_ = row
        if isinstance(value, list):
            kept.add(json.dumps([key, value]))
            read[key, value[0]] += 1
        else:
            sums[key] += value
    assert set(read.values()) <= {1}
    assert set(effects) == kept
    all_ = {(key, event) for key in KEYS for event in range(events)}
    assert read.keys() <= all_
    if whole:
        assert read.keys() == all_
    assert sums == _expected(read), sorted(rows)


def _expected(read) -> Counter:
    """The sums of what timers make at the ends of windows, which adds one for each element."""
    sums: Counter = Counter()
    for key, event in read:
        sums[key] += event + 1
    return sums
