"""Repartition and groupByKey by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.jobs.pairs import measure, pair_of
from benchmarks.jobs.work import SHARDS, Work

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyspark import SparkContext


def run(spark: SparkContext, work: Work) -> list[int]:
    """Groups, values, bytes of values, and the sum over keys of checksum x values."""
    rows = (
        spark.range(work.n, numSlices=SHARDS)
        .map(pair_of(work.keys))
        .repartition(SHARDS)
        .groupByKey(SHARDS)
        .mapPartitions(_tally)
        .collect()
    )
    return [sum(column) for column in zip(*rows, strict=True)]


def _tally(groups: Iterable[tuple[str, Iterable[bytes]]]) -> Iterator[list[int]]:
    sums = [0, 0, 0, 0]
    for group in groups:
        sums[0] += 1
        for column, value in enumerate(measure(group), start=1):
            sums[column] += value
    yield sums
