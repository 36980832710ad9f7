"""Sessions whose sum is kept in RocksDB until their timer, by `transformWithState` in Python."""

from __future__ import annotations

import tempfile
from typing import TYPE_CHECKING, Any

from pyspark.sql import Row
from pyspark.sql import functions as f
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

from benchmarks.handwritten.stream import read_turns, run_until, stateful_session, up_to
from benchmarks.jobs import sessions

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark import SparkContext

    from benchmarks.jobs.work import Work


class Session(StatefulProcessor):
    """Per call and key: one read and one write of the state, and one timer that is moved."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle
        self._state = handle.getValueState("session", "total long, over long")

    def handleInputRows(  # noqa: N802 - Spark's
        self,
        key: Any,
        rows: Iterator[Row],
        timerValues: Any,  # noqa: N803
    ) -> Iterator[Row]:
        before = self._state.get() if self._state.exists() else None
        total, over = before if before is not None else (0, 0)
        latest = over
        for row in rows:
            total += row.value
            latest = max(latest, row.millis + 1000 * sessions.GAP_SECONDS)
        if latest != over:
            if before is not None:
                self._handle.deleteTimer(over)
            self._handle.registerTimer(latest)
        self._state.update((total, latest))
        return iter(())

    def handleExpiredTimer(  # noqa: N802 - Spark's
        self,
        key: Any,
        timerValues: Any,  # noqa: N803
        expiredTimerInfo: Any,  # noqa: N803
    ) -> Iterator[Row]:
        total, _ = self._state.get()
        self._state.clear()
        yield Row(total=total, checksum=sessions.measure((key[0], total))[1])

    def close(self) -> None:
        """Nothing to give back."""


def run(context: SparkContext, work: Work, rows_per_batch: int) -> list[int]:
    """Sessions, the sum of all values, and the sum weighted by session."""
    expected = sessions.TURNS // sessions.LENGTH * work.keys
    number = f.expr(f"turn div {sessions.LENGTH}") * work.keys + f.col("key")
    with stateful_session(context) as spark, tempfile.TemporaryDirectory() as checkpoint:
        spark.conf.set("spark.sql.streaming.checkpointLocation", checkpoint)
        elements = read_turns(spark, work.keys, sessions.TURN_MS, rows_per_batch).select(
            f.concat(f.lit("k"), f.lpad(number.cast("string"), 8, "0")).alias("session"),
            ((f.col("key") + f.col("turn")) % 1000).alias("value"),
            f.unix_millis("time").alias("millis"),
            "time",
            "turn",
        )
        sums = (
            elements.where(up_to(sessions.TURNS))
            .groupBy("session")
            .transformWithState(Session(), "total long, checksum long", "Update", "EventTime")
        )
        return run_until(sums, expected)
