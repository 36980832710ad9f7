"""The shards of a job as a bytewax source, a block at a time."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import TYPE_CHECKING

from bytewax.inputs import FixedPartitionedSource, StatefulSourcePartition

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from benchmarks.jobs.turns import Shard

Item = tuple[str, tuple[datetime, int]]


class Blocks(StatefulSourcePartition[Item, int]):
    """One shard: (key, (time, value)), as bytewax wants keyed items."""

    def __init__(
        self, shard: Shard, make: Callable[[int, range], Sequence[tuple[str, int]]], number: int
    ) -> None:
        self._shard = shard
        self._make = make
        self._number = number

    def next_batch(self) -> list[Item]:
        if self._number == self._shard.blocks:
            raise StopIteration
        block = self._shard.block(self._number)
        self._number += 1
        time = datetime.fromtimestamp(block.time_ms / 1000, timezone.utc)
        return [(key, (time, value)) for key, value in self._make(block.turn, block.keys)]

    def snapshot(self) -> int:
        return self._number


class Stream(FixedPartitionedSource[Item, int]):
    """All shards; bytewax deals them out to the workers."""

    def __init__(
        self, shards: list[Shard], make: Callable[[int, range], Sequence[tuple[str, int]]]
    ) -> None:
        self._shards = {str(number): shard for number, shard in enumerate(shards)}
        self._make = make

    def list_parts(self) -> list[str]:
        return list(self._shards)

    def build_part(self, step_id: str, for_part: str, resume_state: int | None) -> Blocks:
        return Blocks(self._shards[for_part], self._make, resume_state or 0)
