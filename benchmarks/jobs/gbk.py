"""Small pairs through Reshuffle and GroupByKey: what the shuffle costs."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

import apache_beam as beam

from benchmarks.jobs.pairs import STRIDE, VALUE_BYTES, key_text, measure, pair_of
from benchmarks.jobs.source import Generate
from benchmarks.jobs.tally import Tally, read_tally

if TYPE_CHECKING:
    from benchmarks.jobs.work import Work


def build(pipeline: beam.Pipeline, work: Work) -> None:
    """Applies the job to `pipeline`."""
    _ = (
        pipeline
        | Generate(work.n, pair_of(work.keys), tuple[str, bytes])
        | "Reshuffle" >> beam.Reshuffle()
        | "Group" >> beam.GroupByKey()
        | Tally(measure, 3, work.out)
    )


def result(work: Work) -> list[int]:
    """Groups, values, bytes of values, and the sum over keys of checksum x values."""
    return read_tally(work.out)


def expected(work: Work) -> list[int]:
    """`result` from the counts per key, without grouping anything."""
    n, keys = work.n, work.keys
    each, more = divmod(n, keys)
    checksum = sum(
        zlib.crc32(key_text(r * STRIDE % keys).encode()) * (each + (r < more))
        for r in range(min(n, keys))
    )
    return [min(n, keys), n, VALUE_BYTES * n, checksum]
