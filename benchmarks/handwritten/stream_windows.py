"""A count per key and fixed window in RocksDB until its timer, by `transformWithState`."""

from __future__ import annotations

import tempfile
from typing import TYPE_CHECKING, Any

from pyspark.sql import Row
from pyspark.sql import functions as f

from benchmarks.handwritten.counting import CountUntil
from benchmarks.handwritten.stream import read_turns, run_until, stateful_session, up_to
from benchmarks.jobs import tumbling

if TYPE_CHECKING:
    from pyspark import SparkContext

    from benchmarks.jobs.work import Work


def window_end(key: Any) -> int:
    """When the window of a key and window ends, in milliseconds."""
    return int(key[1])


def measured(key: Any, count: int) -> Row:
    """What is sent of a key and window."""
    count, checksum = tumbling.measure((key[0], key[1], count))
    return Row(count=count, checksum=checksum)


def run(context: SparkContext, work: Work, rows_per_batch: int) -> list[int]:
    """Counts per key and window: how many, their sum, their sum weighted by key and window."""
    turns = tumbling.turns_of(work)
    expected = -(-turns // tumbling.PER_WINDOW) * work.keys
    width = 1000 * tumbling.WINDOW_SECONDS
    end = f.expr(f"(unix_millis(time) div {width} + 1) * {width}")
    with stateful_session(context) as spark, tempfile.TemporaryDirectory() as checkpoint:
        spark.conf.set("spark.sql.streaming.checkpointLocation", checkpoint)
        elements = read_turns(spark, work.keys, tumbling.TURN_MS, rows_per_batch).select(
            f.concat(f.lit("k"), f.lpad(f.col("key").cast("string"), 5, "0")).alias("name"),
            end.alias("end"),
            "time",
            "turn",
        )
        counts = (
            elements.where(up_to(turns))
            .groupBy("name", "end")
            .transformWithState(
                CountUntil(window_end, measured), "count long, checksum long", "Update", "EventTime"
            )
        )
        return run_until(counts, expected)
