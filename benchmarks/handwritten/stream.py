"""The elements of the streaming jobs as Structured Streaming reads them, and the check at the end.

Spark's `rate-micro-batch` source numbers its rows; key, turn and time follow from the number, so
that all turns come one after another, as the shards of the other programs make them.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

from benchmarks.jobs.turns import START_MS
from benchmarks.jobs.work import SHARDS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark import SparkContext

_WAIT_SECONDS = 1.0
# Spark's own advice for speed: state is not counted, and a batch writes what has changed.
_FAST_STORE = ("trackTotalNumberOfRows=false", "changelogCheckpointing.enabled=true")
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


@contextmanager
def stateful_session(context: SparkContext) -> Iterator[SparkSession]:
    """A session whose state is in RocksDB, in as many partitions as there are cores."""
    spark = SparkSession(context).newSession()
    spark.conf.set("spark.sql.streaming.stateStore.providerClass", ROCKSDB)
    for setting in _FAST_STORE:
        name, _, value = setting.partition("=")
        spark.conf.set(f"spark.sql.streaming.stateStore.rocksdb.{name}", value)
    spark.conf.set("spark.sql.shuffle.partitions", str(context.defaultParallelism))
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    yield spark


def read_turns(spark: SparkSession, keys: int, turn_ms: int, rows_per_batch: int) -> DataFrame:
    """Columns `turn`, `key` (numbers) and `time`, without end, in the order of time."""
    rows = (
        spark.readStream.format("rate-micro-batch")
        .option("rowsPerBatch", rows_per_batch)
        .option("numPartitions", min(SHARDS, context_cores(spark)))
        .option("startTimestamp", START_MS)
        .load()
    )
    turn = f.expr(f"value div {keys}")
    millis = turn * turn_ms + (f.col("value") % keys) * turn_ms / keys
    return rows.select(
        turn.alias("turn"),
        (f.col("value") % keys).alias("key"),
        f.timestamp_millis((f.lit(START_MS) + millis).cast("long")).alias("time"),
    ).withWatermark("time", "1 second")


def up_to(turns: int) -> Column:
    """Whether a row is of the first `turns` turns; later ones only bring the watermark forward.

    Spark would see to a plain condition before it looks at the rows' times, and time would stop
    with the last of them; chance it must leave where it stands.
    """
    return f.col("turn") + 0 * f.rand() < turns


def context_cores(spark: SparkSession) -> int:
    """How many tasks run at once."""
    return int(spark.sparkContext.defaultParallelism)


def run_until(rows: DataFrame, expected: int) -> list[int]:
    """Adds up the columns of a stream until `expected` rows were seen: their number, and the sums.

    The source has no end; what it makes beyond n must not come here.
    """
    lock = threading.Lock()
    sums = [0] * (1 + len(rows.columns))
    enough = threading.Event()

    def add(batch: DataFrame, _: int) -> None:
        # Sums of checksums leave 64 bits.
        columns = [f.sum(f.col(name).cast("decimal(38,0)")) for name in batch.columns]
        row = batch.agg(f.count(f.lit(1)), *columns).collect()[0]
        with lock:
            for column, value in enumerate(row):
                sums[column] += int(value or 0)
            if sums[0] >= expected:
                enough.set()

    query = rows.writeStream.outputMode("update").foreachBatch(add).start()
    try:
        while not enough.wait(_WAIT_SECONDS):
            if not query.isActive:
                query.awaitTermination()
                break
    finally:
        query.stop()
    return sums
