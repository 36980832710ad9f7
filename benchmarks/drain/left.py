"""What Structured Streaming leaves inside a query that ends, on the data of ``waiting``.

Arguments: what waits, elements, keys, a directory. ``windows``: the query counts per key and window
of a day, in append mode. ``timers``: it counts per key by ``transformWithState`` in Python, which
sends the count when a timer fires, a day later. Its state is in RocksDB. It is ended by
``query.stop()`` after it has processed all there is, and in another run by
``Trigger.AvailableNow``. What is in its state then is read by Spark's own ``statestore`` source.
The last line that this prints is JSON.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as f

from benchmarks.drain.waiting import DAY_SECONDS
from benchmarks.handwritten.counting import CountUntil
from benchmarks.handwritten.stream import ROCKSDB
from benchmarks.jobs.turns import START_MS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_FILES = 20


def due(key: Any) -> int:
    """When the timer of a key fires, in milliseconds."""
    return START_MS + 1000 * DAY_SECONDS


def sent(key: Any, count: int) -> Row:
    """What is sent then."""
    return Row(key=key[0], count=count)


def main() -> None:
    kind, n, keys, home = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4])
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.streaming.stateStore.providerClass", ROCKSDB)
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.local.dir", str(home / "local"))
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    try:
        write(spark, n, keys, home / "input")
        said = {way: end_by(spark, home, kind, way) for way in ("stop", "available_now")}
    finally:
        spark.stop()
    print(json.dumps(said), flush=True)


def write(spark: SparkSession, n: int, keys: int, path: Path) -> None:
    """The elements, as files."""
    number = f.col("id") % keys
    spark.range(0, n, 1, _FILES).select(
        f.concat(f.lit("k"), f.lpad(number.cast("string"), 7, "0")).alias("key"),
        f.timestamp_millis(f.lit(START_MS)).alias("time"),
    ).write.parquet(str(path))


def counts_of(rows: DataFrame, kind: str) -> DataFrame:
    """Counts per key, which wait for a window to end or for a timer."""
    if kind == "windows":
        return rows.groupBy(f.window("time", f"{DAY_SECONDS} seconds"), "key").count()
    return rows.groupBy("key").transformWithState(
        CountUntil(due, sent), "key string, count long", "Append", "EventTime"
    )


def end_by(spark: SparkSession, home: Path, kind: str, way: str) -> dict[str, list[int]]:
    """Of counts: how many, their sum, and the sum weighted by key, of those emitted and left."""
    emitted: list[list[int]] = []
    checkpoint = str(home / way)
    rows = (
        spark.readStream.schema("key string, time timestamp")
        .parquet(str(home / "input"))
        .withWatermark("time", "1 second")
    )
    writer = (
        counts_of(rows, kind)
        .writeStream.outputMode("append")
        .option("checkpointLocation", checkpoint)
        .foreachBatch(lambda batch, _: emitted.append(sums(batch.select("key", "count"))))
    )
    if way == "stop":
        query = writer.start()
        query.processAllAvailable()
        query.stop()
    else:
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
    state = spark.read.format("statestore")
    if kind == "timers":
        state = state.option("stateVarName", "count")
    left = sums(state.load(checkpoint).select("key.key", "value.count"))
    return {"emitted": [sum(c) for c in zip(*emitted, strict=True)], "left": left}


def sums(counts: DataFrame) -> list[int]:
    """How many counts, their sum, and their sum weighted by key."""
    weighted: Any = f.crc32(f.col("key").cast("binary")) * f.col("count")
    row = counts.agg(f.count(f.lit(1)), f.sum("count"), f.sum(weighted)).collect()[0]
    return [int(value or 0) for value in row]


if __name__ == "__main__":
    main()
