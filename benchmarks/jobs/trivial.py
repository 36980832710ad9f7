"""The smallest pipeline with a shuffle and a result: for the time of starting up."""

from __future__ import annotations

from typing import TYPE_CHECKING

import apache_beam as beam

from benchmarks.jobs.tally import Tally, read_tally

if TYPE_CHECKING:
    from benchmarks.jobs.work import Work


def build(pipeline: beam.Pipeline, work: Work) -> None:
    """Applies the job to `pipeline`."""
    numbers = pipeline | beam.Create(range(work.n), reshuffle=False)
    _ = numbers | "Double" >> beam.Map(lambda x: 2 * x) | Tally(lambda x: x, 1, work.out)


def result(work: Work) -> list[int]:
    """Elements, and the sum of their doubles."""
    return read_tally(work.out)


def expected(work: Work) -> list[int]:
    """`result` by arithmetic."""
    return [work.n, work.n * (work.n - 1)]
