"""Keyed state and timers: every element reads and writes three states and sets a timer."""

from __future__ import annotations

import zlib
from collections import Counter
from typing import TYPE_CHECKING, Any

import apache_beam as beam
from apache_beam.coders import VarIntCoder
from apache_beam.transforms.combiners import CountCombineFn
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.transforms.userstate import (
    BagStateSpec,
    CombiningValueStateSpec,
    ReadModifyWriteStateSpec,
    TimerSpec,
    on_timer,
)
from apache_beam.transforms.window import TimestampedValue
from apache_beam.utils.timestamp import Timestamp

from benchmarks.jobs.source import Generate
from benchmarks.jobs.tally import Tally, read_tally

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.jobs.work import Work

START = 1_000_000
FIRES = Timestamp(2_000_000)  # after every element: each key fires once, when the input ends


class Ledger(beam.DoFn):
    """Per key: the sum (value state), the values (bag) and their number (combining state)."""

    SUM = ReadModifyWriteStateSpec("sum", VarIntCoder())
    VALUES = BagStateSpec("values", VarIntCoder())
    COUNT = CombiningValueStateSpec("count", VarIntCoder(), CountCombineFn())
    CLOSE = TimerSpec("close", TimeDomain.WATERMARK)

    def process(
        self,
        element: tuple[str, int],
        total: Any = beam.DoFn.StateParam(SUM),
        values: Any = beam.DoFn.StateParam(VALUES),
        count: Any = beam.DoFn.StateParam(COUNT),
        close: Any = beam.DoFn.TimerParam(CLOSE),
    ) -> None:
        value = element[1]
        total.write((total.read() or 0) + value)
        values.add(value)
        count.add(value)
        close.set(FIRES)

    @on_timer(CLOSE)
    def on_close(
        self,
        key: Any = beam.DoFn.KeyParam,
        total: Any = beam.DoFn.StateParam(SUM),
        values: Any = beam.DoFn.StateParam(VALUES),
        count: Any = beam.DoFn.StateParam(COUNT),
    ) -> Iterator[tuple[str, int, int, int]]:
        yield key, total.read(), sum(values.read()), count.read()
        total.clear()
        values.clear()
        count.clear()


def measure(row: tuple[str, int, int, int]) -> tuple[int, int, int, int]:
    """What the three states held, and a sum that changes if a value strays to another key."""
    key, total, of_bag, count = row
    return total, of_bag, count, zlib.crc32(key.encode()) * total


def build(pipeline: beam.Pipeline, work: Work) -> None:
    """Applies the job to `pipeline`."""
    keys = work.keys

    def element(i: int) -> TimestampedValue:
        return TimestampedValue((key_text(i % keys), i % 1000), START + i % 1000)

    _ = (
        pipeline
        | Generate(work.n, element, tuple[str, int])
        | "Ledger" >> beam.ParDo(Ledger())
        | Tally(measure, 4, work.out)
    )


def key_text(key: int) -> str:
    """The key with this number."""
    return f"k{key:06d}"


def result(work: Work) -> list[int]:
    """Keys, the sums of the three states over all keys, and the sum weighted by key."""
    return read_tally(work.out)


def expected(work: Work) -> list[int]:
    """`result` in plain Python."""
    sums: Counter[int] = Counter()
    for i in range(work.n):
        sums[i % work.keys] += i % 1000
    total = sum(sums.values())
    checksum = sum(zlib.crc32(key_text(key).encode()) * s for key, s in sums.items())
    return [len(sums), total, total, work.n, checksum]
