"""Word count by hand."""

from __future__ import annotations

from operator import add
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark import SparkContext

    from benchmarks.jobs.work import Work


def run(spark: SparkContext, work: Work) -> None:
    """Reads the text, counts, writes lines of `word: count`."""
    (
        spark.textFile(str(work.text))
        .flatMap(str.split)
        .map(lambda word: (word, 1))
        .reduceByKey(add)
        .map(lambda row: f"{row[0]}: {row[1]}")
        .saveAsTextFile(str(work.out / "counts"))
    )
