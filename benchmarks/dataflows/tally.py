"""The cheap check at the end of a dataflow: sums of numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bytewax.outputs import DynamicSink, StatelessSinkPartition

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


class _Sums(StatelessSinkPartition[Any]):
    def __init__(
        self, measure: Callable[[Any], Sequence[int]], tell: Callable[[list[int]], None]
    ) -> None:
        self._measure = measure
        self._tell = tell
        self._sums: list[int] = []

    def write_batch(self, items: list[Any]) -> None:
        for item in items:
            row = (1, *self._measure(item))
            self._sums = [a + b for a, b in zip(self._sums or [0] * len(row), row, strict=True)]

    def close(self) -> None:
        self._tell(self._sums)


class Tally(DynamicSink[Any]):
    """Counts items and sums what `measure` says of each; `tell` gets one worker's sums."""

    def __init__(
        self, measure: Callable[[Any], Sequence[int]], tell: Callable[[list[int]], None]
    ) -> None:
        self._measure = measure
        self._tell = tell

    def build(self, step_id: str, worker_index: int, worker_count: int) -> _Sums:
        return _Sums(self._measure, self._tell)
