"""Keyed state: every element reads a value state, adds to it, writes it and sends it on."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any

import apache_beam as beam
from apache_beam.coders import VarIntCoder
from apache_beam.transforms.userstate import ReadModifyWriteStateSpec

from benchmarks.jobs.source import Generate
from benchmarks.jobs.stateful import key_text
from benchmarks.jobs.tally import Tally, read_tally

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.jobs.work import Work

VALUES = 1000


class Running(beam.DoFn):
    """The sum so far of the key's values. They are equal, so their order does not matter."""

    SUM = ReadModifyWriteStateSpec("sum", VarIntCoder())

    def process(
        self, element: tuple[str, int], total: Any = beam.DoFn.StateParam(SUM)
    ) -> Iterator[tuple[str, int]]:
        key, value = element
        now = (total.read() or 0) + value
        total.write(now)
        yield key, now


def measure(row: tuple[str, int]) -> tuple[int, int]:
    """The sum, and one that changes if a value strays to another key."""
    key, total = row
    return total, zlib.crc32(key.encode()) * total


def build(pipeline: beam.Pipeline, work: Work) -> None:
    """Applies the job to `pipeline`."""
    keys = work.keys

    def element(i: int) -> tuple[str, int]:
        return key_text(i % keys), i % keys % VALUES

    _ = (
        pipeline
        | Generate(work.n, element, tuple[str, int])
        | "Running" >> beam.ParDo(Running())
        | Tally(measure, 2, work.out)
    )


def result(work: Work) -> list[int]:
    """Elements, the sum of all sums, and the sum weighted by key."""
    return read_tally(work.out)


def expected(work: Work) -> list[int]:
    """`result` by arithmetic for each key."""
    total = checksum = 0
    each, more = divmod(work.n, work.keys)
    for key in range(work.keys):
        count = each + (key < more)
        of_key = key % VALUES * (count * (count + 1) // 2)
        total += of_key
        checksum += zlib.crc32(key_text(key).encode()) * of_key
    return [work.n, total, checksum]
