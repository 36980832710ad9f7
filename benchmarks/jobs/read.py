"""Numbers that are made and added up: what an element costs that goes nowhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.jobs.source import Generate
from benchmarks.jobs.tally import Tally, read_tally

if TYPE_CHECKING:
    import apache_beam as beam

    from benchmarks.jobs.work import Work


def build(pipeline: beam.Pipeline, work: Work) -> None:
    """Applies the job to `pipeline`."""
    _ = pipeline | Generate(work.n, lambda i: i, int) | Tally(lambda x: x, 1, work.out)


def result(work: Work) -> list[int]:
    """Elements, and their sum."""
    return read_tally(work.out)


def expected(work: Work) -> list[int]:
    """`result` by arithmetic."""
    return [work.n, work.n * (work.n - 1) // 2]
