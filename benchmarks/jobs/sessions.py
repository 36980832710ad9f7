"""Sessions of ten elements, which keyed state is measured with. Plain Python, no Beam."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

from benchmarks.jobs.turns import Shard, shards

if TYPE_CHECKING:
    from benchmarks.jobs.work import Work

LENGTH = 10  # elements of a session, one in each turn
TURN_MS = 1000
GAP_SECONDS = 3  # a session is over when it had no element for so long
TURNS = 30  # so that three sessions follow one another


def session_shards(work: Work) -> list[Shard]:
    """`work.keys` sessions at a time, three times over."""
    return shards(work.keys, TURNS, TURN_MS)


def make_sessions(live: int, turn: int, keys: range) -> list[tuple[str, int]]:
    """The elements of a turn; every `LENGTH` turns all of the `live` sessions are new ones."""
    first = turn // LENGTH * live
    return [(key_text(first + key), (key + turn) % 1000) for key in keys]


def key_text(number: int) -> str:
    """The session with this number."""
    return f"k{number:08d}"


def measure(row: tuple[str, int]) -> tuple[int, int]:
    """A session's sum, and a product that changes if a value strays to another session."""
    key, total = row
    return total, zlib.crc32(key.encode()) * total


def expected(work: Work) -> list[int]:
    """Sessions, the sum of all values, and the sum weighted by session; from arithmetic."""
    rows = [
        measure((key_text(live * work.keys + key), _total(key, live * LENGTH)))
        for live in range(TURNS // LENGTH)
        for key in range(work.keys)
    ]
    return [len(rows), sum(r[0] for r in rows), sum(r[1] for r in rows)]


def _total(key: int, turn: int) -> int:
    return sum((key + t) % 1000 for t in range(turn, turn + LENGTH))
