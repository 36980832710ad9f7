"""Timers: every element adds to a value state and sets its key's timer, which sends the sum."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any

import apache_beam as beam
from apache_beam.coders import VarIntCoder
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.transforms.userstate import ReadModifyWriteStateSpec, TimerSpec, on_timer

from benchmarks.jobs.keyed_state import VALUES, measure
from benchmarks.jobs.source import Generate
from benchmarks.jobs.stateful import FIRES, key_text
from benchmarks.jobs.tally import Tally, read_tally

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.jobs.work import Work


class Sums(beam.DoFn):
    """The sum of each key, when the input has ended."""

    SUM = ReadModifyWriteStateSpec("sum", VarIntCoder())
    END = TimerSpec("end", TimeDomain.WATERMARK)

    def process(
        self,
        element: tuple[str, int],
        total: Any = beam.DoFn.StateParam(SUM),
        end: Any = beam.DoFn.TimerParam(END),
    ) -> None:
        total.write((total.read() or 0) + element[1])
        end.set(FIRES)

    @on_timer(END)
    def on_end(
        self, key: Any = beam.DoFn.KeyParam, total: Any = beam.DoFn.StateParam(SUM)
    ) -> Iterator[tuple[str, int]]:
        yield key, total.read()
        total.clear()


def build(pipeline: beam.Pipeline, work: Work) -> None:
    """Applies the job to `pipeline`."""
    keys = work.keys

    def element(i: int) -> tuple[str, int]:
        return key_text(i % keys), i % VALUES

    _ = (
        pipeline
        | Generate(work.n, element, tuple[str, int])
        | "Sums" >> beam.ParDo(Sums())
        | Tally(measure, 2, work.out)
    )


def result(work: Work) -> list[int]:
    """Keys, the sum over all keys, and the sum weighted by key."""
    return read_tally(work.out)


def expected(work: Work) -> list[int]:
    """`result` in plain Python."""
    sums = [0] * work.keys
    for i in range(work.n):
        sums[i % work.keys] += i % VALUES
    checksum = sum(zlib.crc32(key_text(key).encode()) * each for key, each in enumerate(sums))
    return [work.keys, sum(sums), checksum]
