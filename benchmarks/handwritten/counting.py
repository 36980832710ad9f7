"""A count per key in RocksDB until its timer, by `transformWithState` in Python."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import Row


class CountUntil(StatefulProcessor):
    """Of one key: the count, sent by its only timer.

    Args:
        due: when a key's timer fires, in milliseconds since 1970.
        send: what is sent of a key and its count.
    """

    def __init__(self, due: Callable[[Any], int], send: Callable[[Any, int], Row]) -> None:
        self._due = due
        self._send = send

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
            self._handle.registerTimer(self._due(key))
        self._count.update((more,))
        return iter(())

    def handleExpiredTimer(  # noqa: N802 - Spark's
        self,
        key: Any,
        timerValues: Any,  # noqa: N803
        expiredTimerInfo: Any,  # noqa: N803
    ) -> Iterator[Row]:
        (count,) = self._count.get()
        self._count.clear()
        yield self._send(key, count)

    def close(self) -> None:
        """Nothing to give back."""
