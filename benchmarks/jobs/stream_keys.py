"""Very many keys with state: some are visited again, and what the first visit left is read."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any

import apache_beam as beam
from apache_beam.coders import VarIntCoder
from apache_beam.transforms.userstate import ReadModifyWriteStateSpec

from benchmarks.jobs.memory import Witness, read_memory
from benchmarks.jobs.stream import Stream
from benchmarks.jobs.tally import Tally, read_tally
from benchmarks.jobs.turns import shards

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from benchmarks.jobs.work import Work

VISITS = 2
AGAIN = 10  # one key in so many is visited again
TURN_MS = 3_600_000


class Visit(beam.DoFn):
    """Adds to the key's sum, which stays; sends it with the second visit."""

    SUM = ReadModifyWriteStateSpec("sum", VarIntCoder())

    def __init__(self, out: Path) -> None:
        self._out = str(out)

    def setup(self) -> None:
        self._witness = Witness(self._out)

    def process(
        self, element: tuple[str, int], total: Any = beam.DoFn.StateParam(SUM)
    ) -> Iterator[tuple[str, int]]:
        key, value = element
        before = total.read()
        total.write((before or 0) + value)
        if before is not None:
            yield key, before + value

    def finish_bundle(self) -> None:
        self._witness.look()


def make_visits(turn: int, keys: range) -> list[tuple[str, int]]:
    """The elements of a turn."""
    visited = (key for key in keys if key % AGAIN == AGAIN - 1) if turn else keys
    return [(key_text(key), key % 1000 + turn) for key in visited]


def key_text(key: int) -> str:
    """The key with this number."""
    return f"k{key:08d}"


def measure(row: tuple[str, int]) -> tuple[int, int]:
    """A key's sum, and a product that changes if a value strays to another key."""
    key, total = row
    return total, zlib.crc32(key.encode()) * total


def build(pipeline: beam.Pipeline, work: Work) -> None:
    """Applies the job to `pipeline`."""
    _ = (
        pipeline
        | Stream(shards(work.keys, VISITS, TURN_MS), make_visits, tuple[str, int])
        | "Visit" >> beam.ParDo(Visit(work.out)).with_output_types(tuple[str, int])
        | Tally(measure, 2, work.out, stream=True)
    )


def result(work: Work) -> list[int]:
    """Keys visited again, the sum of their values, and the sum weighted by key."""
    return read_tally(work.out)


def figures(work: Work) -> dict[str, float]:
    """Memory of the process that holds the state."""
    return read_memory(work.out)


def expected(work: Work) -> list[int]:
    """`result` from arithmetic."""
    count = total = checksum = 0
    for key in range(AGAIN - 1, work.keys, AGAIN):
        of_key = 2 * (key % 1000) + 1
        count += 1
        total += of_key
        checksum += zlib.crc32(key_text(key).encode()) * of_key
    return [count, total, checksum]
