"""What tasks tell the driver by Spark's accumulators."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyspark  # noqa: F401 - whole before a part of it: see the package
from pyspark.accumulators import AccumulatorParam, _accumulatorRegistry

if TYPE_CHECKING:
    from pyspark import SparkContext


class Notes:
    """What tasks tell the driver beside their output. What a failed task has told does not come.

    A task that Spark has run again although it had succeeded has told everything once more.
    """

    def __init__(self, context: SparkContext) -> None:
        self._accumulator = context.accumulator([], _Lists())

    def tell(self, record: bytes) -> None:
        """Tell the driver; in a task."""
        self._accumulator.add([record])

    def take(self) -> list[bytes]:
        """What was told since the last call, by tasks of runs that are over; in the driver."""
        told: list[bytes] = self._accumulator.value
        self._accumulator.value = []
        return told

    def look(self) -> list[bytes]:
        """What tasks that have ended have told since ``take``, which can still take it."""
        return list(self._accumulator.value)

    def close(self) -> None:
        """Forget the accumulator: no task tells anything any more."""
        _accumulatorRegistry.pop(self._accumulator.aid, None)


class _Lists(AccumulatorParam[list[bytes]]):
    """Lists, put one behind the other."""

    def zero(self, value: list[bytes]) -> list[bytes]:
        return []

    def addInPlace(self, value1: list[bytes], value2: list[bytes]) -> list[bytes]:  # noqa: N802
        value1.extend(value2)
        return value1
