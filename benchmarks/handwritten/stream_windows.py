"""A count per key and fixed window in RocksDB until its timer, by `transformWithState`."""

from __future__ import annotations

import tempfile
from typing import TYPE_CHECKING, Any

from pyspark.sql import Row
from pyspark.sql import functions as f
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

from benchmarks.handwritten.stream import read_turns, run_until, stateful_session, up_to
from benchmarks.jobs import tumbling

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark import SparkContext

    from benchmarks.jobs.work import Work


class WindowCount(StatefulProcessor):
    """Of one key and window: the count, sent when the window ends."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle
        self._count = handle.getValueState("count", "count long")

    def handleInputRows(  # noqa: N802 - Spark's
        self,
        key: Any,
        rows: Iterator[Row],
        timerValues: Any,  # noqa: N803
    ) -> Iterator[Row]:
        more = sum(1 for _ in rows)
        if self._count.exists():
            more += self._count.get()[0]
        else:
            self._handle.registerTimer(key[1])
        self._count.update((more,))
        return iter(())

    def handleExpiredTimer(  # noqa: N802 - Spark's
        self,
        key: Any,
        timerValues: Any,  # noqa: N803
        expiredTimerInfo: Any,  # noqa: N803
    ) -> Iterator[Row]:
        count, checksum = tumbling.measure((key[0], key[1], self._count.get()[0]))
        self._count.clear()
        yield Row(count=count, checksum=checksum)

    def close(self) -> None:
        """Nothing to give back."""


def run(context: SparkContext, work: Work) -> list[int]:
    """Counts per key and window: how many, their sum, their sum weighted by key and window."""
    turns = tumbling.turns_of(work)
    expected = -(-turns // tumbling.PER_WINDOW) * work.keys
    width = 1000 * tumbling.WINDOW_SECONDS
    end = f.expr(f"(unix_millis(time) div {width} + 1) * {width}")
    with stateful_session(context) as spark, tempfile.TemporaryDirectory() as checkpoint:
        spark.conf.set("spark.sql.streaming.checkpointLocation", checkpoint)
        elements = read_turns(spark, work.keys, tumbling.TURN_MS).select(
            f.concat(f.lit("k"), f.lpad(f.col("key").cast("string"), 5, "0")).alias("name"),
            end.alias("end"),
            "time",
            "turn",
        )
        counts = (
            elements.where(up_to(turns))
            .groupBy("name", "end")
            .transformWithState(WindowCount(), "count long, checksum long", "Update", "EventTime")
        )
        return run_until(counts, expected)
