"""The elements of the streaming jobs, in plain Python: for Beam, bytewax and Spark alike.

Time goes in turns. In each, every key has one element, key after key. Keys are dealt out to
shards, so that the elements of a key come from one source, in the order of their times.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from benchmarks.jobs.work import SHARDS

BLOCK = 1000  # elements at most that a source hands out at once, with one timestamp
START_MS = 1_000_000_000


class Block(NamedTuple):
    """What a source hands out at once: one element for each of `keys`, all at `time_ms`."""

    time_ms: int
    turn: int
    keys: range


@dataclass(frozen=True, slots=True)
class Shard:
    """A range of keys through all turns.

    Attributes:
        first: number of its first key.
        keys: how many it has.
        turns: how often each has an element.
        turn_ms: event time between two elements of a key.
    """

    first: int
    keys: int
    turns: int
    turn_ms: int

    @property
    def blocks(self) -> int:
        """How many blocks it has, over all turns."""
        return self.turns * self._parts

    def block(self, number: int) -> Block:
        """The block of this number; its keys are all of one turn."""
        turn, part = divmod(number, self._parts)
        start = self.first + part * BLOCK
        keys = range(start, min(start + BLOCK, self.first + self.keys))
        return Block(self.time_ms(number), turn, keys)

    def time_ms(self, number: int) -> int:
        """Time of the block of this number: not before that of any earlier one."""
        return START_MS + number * self.turn_ms // self._parts

    @property
    def _parts(self) -> int:
        return -(-self.keys // BLOCK)


def shards(keys: int, turns: int, turn_ms: int) -> list[Shard]:
    """`SHARDS` shards that have all keys between them; fewer where keys are few."""
    bounds = [keys * s // SHARDS for s in range(SHARDS + 1)]
    return [
        Shard(first, stop - first, turns, turn_ms)
        for first, stop in pairwise(bounds)
        if stop > first
    ]
