"""A count per key and fixed window of a stream."""

from __future__ import annotations

from typing import TYPE_CHECKING

import apache_beam as beam
from apache_beam.transforms.combiners import Count
from apache_beam.transforms.window import FixedWindows

from benchmarks.jobs import tumbling
from benchmarks.jobs.stream import Stream
from benchmarks.jobs.tally import Tally, read_tally

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.jobs.work import Work


class WithWindow(beam.DoFn):
    """(key, end of window in milliseconds, count)."""

    def process(
        self, element: tuple[str, int], window: object = beam.DoFn.WindowParam
    ) -> Iterator[tuple[str, int, int]]:
        key, count = element
        yield key, window.end.micros // 1000, count


def build(pipeline: beam.Pipeline, work: Work) -> None:
    """Applies the job to `pipeline`."""
    _ = (
        pipeline
        | Stream(tumbling.tumbling_shards(work), tumbling.make_pairs, tuple[str, int])
        | "Fixed" >> beam.WindowInto(FixedWindows(tumbling.WINDOW_SECONDS))
        | "Count" >> Count.PerKey()
        | "WithWindow" >> beam.ParDo(WithWindow())
        | Tally(tumbling.measure, 2, work.out, stream=True)
    )


def result(work: Work) -> list[int]:
    """Counts per key and window: how many, their sum, their sum weighted by key and window."""
    return read_tally(work.out)


expected = tumbling.expected
