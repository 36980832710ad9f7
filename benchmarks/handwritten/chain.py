"""Five maps, repartition, five maps by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.jobs.work import MAPS, SHARDS, Work

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyspark import SparkContext


def run(spark: SparkContext, work: Work) -> list[int]:
    """Elements, and their sum."""
    numbers = spark.range(work.n, numSlices=SHARDS)
    for _ in range(MAPS):
        numbers = numbers.map(lambda x: x + 1)
    numbers = numbers.repartition(SHARDS)
    for _ in range(MAPS):
        numbers = numbers.map(lambda x: x + 1)
    rows = numbers.mapPartitions(_tally).collect()
    return [sum(column) for column in zip(*rows, strict=True)]


def _tally(numbers: Iterable[int]) -> Iterator[tuple[int, int]]:
    count = total = 0
    for x in numbers:
        count += 1
        total += x
    yield count, total
