"""The smallest job with a shuffle and a result, by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark import SparkContext

    from benchmarks.jobs.work import Work


def run(spark: SparkContext, work: Work) -> list[int]:
    """Elements, and the sum of their doubles."""
    doubles = spark.parallelize(range(work.n), 1).map(lambda x: 2 * x)
    rows = doubles.map(lambda x: (0, (1, x))).reduceByKey(_add, 1).values().collect()
    return list(rows[0])


def _add(a: tuple[int, int], b: tuple[int, int]) -> tuple[int, int]:
    return a[0] + b[0], a[1] + b[1]
