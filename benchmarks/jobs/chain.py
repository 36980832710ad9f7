"""Five maps, Reshuffle, five maps over ints: what an element costs on its way through."""

from __future__ import annotations

import apache_beam as beam

from benchmarks.jobs.source import Generate
from benchmarks.jobs.tally import Tally, read_tally
from benchmarks.jobs.work import MAPS, Work


def build(pipeline: beam.Pipeline, work: Work) -> None:
    """Applies the job to `pipeline`."""
    numbers = pipeline | Generate(work.n, lambda i: i, int)
    for step in range(MAPS):
        numbers |= f"Before{step}" >> beam.Map(lambda x: x + 1)
    numbers |= "Reshuffle" >> beam.Reshuffle()
    for step in range(MAPS):
        numbers |= f"After{step}" >> beam.Map(lambda x: x + 1)
    _ = numbers | Tally(lambda x: x, 1, work.out)


def result(work: Work) -> list[int]:
    """Elements, and their sum."""
    return read_tally(work.out)


def expected(work: Work) -> list[int]:
    """`result` by arithmetic."""
    return [work.n, work.n * (work.n - 1) // 2 + 2 * MAPS * work.n]
