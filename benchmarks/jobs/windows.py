"""Sliding windows and a Combine per key: what assigning and combining by window costs."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import apache_beam as beam
from apache_beam.transforms.window import GlobalWindows, SlidingWindows, TimestampedValue

from benchmarks.jobs.source import Generate
from benchmarks.jobs.tally import Tally, read_tally

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.jobs.work import Work

SIZE = 60
PERIOD = 15
START = 1_000_000
PER_SECOND = 1000  # elements per second of event time


class WithWindow(beam.DoFn):
    """(key, end of window in seconds, sum)."""

    def process(
        self, element: tuple[int, int], window: object = beam.DoFn.WindowParam
    ) -> Iterator[tuple[int, int, int]]:
        key, total = element
        yield key, int(window.end), total


def measure(row: tuple[int, int, int]) -> tuple[int, int]:
    """The sum, and a product that changes if it strays to another key or window."""
    key, end, total = row
    return total, (key + 1) * (end - START + SIZE) * total


def build(pipeline: beam.Pipeline, work: Work) -> None:
    """Applies the job to `pipeline`."""
    keys = work.keys

    def element(i: int) -> TimestampedValue:
        return TimestampedValue((i % keys, i % 1000), START + i // PER_SECOND)

    _ = (
        pipeline
        | Generate(work.n, element, tuple[int, int])
        | "Sliding" >> beam.WindowInto(SlidingWindows(SIZE, PERIOD))
        | "Sum" >> beam.CombinePerKey(sum)
        | "WithWindow" >> beam.ParDo(WithWindow())
        | "OneWindow" >> beam.WindowInto(GlobalWindows())
        | Tally(measure, 2, work.out)
    )


def result(work: Work) -> list[int]:
    """Sums per key and window: how many, their sum, their sum weighted by key and window."""
    return read_tally(work.out)


def expected(work: Work) -> list[int]:
    """`result` in plain Python: the windows of a time are those that end in (t, t + SIZE]."""
    sums: Counter[tuple[int, int]] = Counter()
    for i in range(work.n):
        t = START + i // PER_SECOND
        last = t - t % PERIOD + PERIOD
        for end in range(last, t + SIZE + 1, PERIOD):
            sums[i % work.keys, end] += i % 1000
    rows = [measure((key, end, total)) for (key, end), total in sums.items()]
    return [len(rows), sum(r[0] for r in rows), sum(r[1] for r in rows)]
