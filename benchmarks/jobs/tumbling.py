"""Counts per key and fixed window. Plain Python, no Beam."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

from benchmarks.jobs.turns import START_MS, Shard, shards

if TYPE_CHECKING:
    from benchmarks.jobs.work import Work

TURN_MS = 100
WINDOW_SECONDS = 10
PER_WINDOW = WINDOW_SECONDS * 1000 // TURN_MS  # elements of a key in a window


def tumbling_shards(work: Work) -> list[Shard]:
    """`work.keys` keys, for as many turns as n allows."""
    return shards(work.keys, turns_of(work), TURN_MS)


def turns_of(work: Work) -> int:
    """How many elements each key has."""
    return max(1, work.n // work.keys)


def make_pairs(turn: int, keys: range) -> list[tuple[str, int]]:
    """The elements of a turn."""
    return [(key_text(key), turn) for key in keys]


def key_text(number: int) -> str:
    """The key with this number."""
    return f"k{number:05d}"


def measure(row: tuple[str, int, int]) -> tuple[int, int]:
    """The count, and a product that changes if it strays to another key or window.

    Args:
        row: key, end of the window in milliseconds, count.
    """
    key, end, count = row
    return count, zlib.crc32(key.encode()) * ((end - START_MS) // 1000) * count


def expected(work: Work) -> list[int]:
    """Counts per key and window: how many, their sum, their sum weighted by key and window."""
    turns = turns_of(work)
    rows = [
        measure((key_text(key), START_MS + 1000 * WINDOW_SECONDS * (w + 1), count))
        for w in range(-(-turns // PER_WINDOW))
        for count in [min(PER_WINDOW, turns - w * PER_WINDOW)]
        for key in range(work.keys)
    ]
    return [len(rows), sum(r[0] for r in rows), sum(r[1] for r in rows)]
