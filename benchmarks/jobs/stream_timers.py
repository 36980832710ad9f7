"""Very many timers that are due at once, when the stream ends."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any

import apache_beam as beam
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.transforms.userstate import TimerSpec, on_timer
from apache_beam.utils.timestamp import Timestamp

from benchmarks.jobs.memory import Witness, read_memory
from benchmarks.jobs.stream import Stream
from benchmarks.jobs.tally import Tally, read_tally
from benchmarks.jobs.turns import shards

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from benchmarks.jobs.work import Work

PER_KEY = 10
TURN_MS = 1000
DUE = Timestamp(2_000_000)  # after every element


class Alarm(beam.DoFn):
    """Each element sets a timer of its own; all of them fire together."""

    ALARM = TimerSpec("alarm", TimeDomain.WATERMARK)

    def __init__(self, out: Path) -> None:
        self._out = str(out)

    def setup(self) -> None:
        self._witness = Witness(self._out)

    def process(self, element: tuple[str, int], alarm: Any = beam.DoFn.TimerParam(ALARM)) -> None:
        alarm.set(DUE, dynamic_timer_tag=str(element[1]))

    @on_timer(ALARM)
    def on_alarm(
        self, key: Any = beam.DoFn.KeyParam, tag: Any = beam.DoFn.DynamicTimerTagParam
    ) -> Iterator[tuple[str, int]]:
        yield key, int(tag)

    def finish_bundle(self) -> None:
        self._witness.look()


def make_alarms(turn: int, keys: range) -> list[tuple[str, int]]:
    """The elements of a turn."""
    return [(key_text(key), turn) for key in keys]


def key_text(key: int) -> str:
    """The key with this number."""
    return f"k{key:06d}"


def measure(row: tuple[str, int]) -> tuple[int, int]:
    """The timer's number, and a product that changes if it fires for another key."""
    key, number = row
    return number, zlib.crc32(key.encode()) * (number + 1)


def build(pipeline: beam.Pipeline, work: Work) -> None:
    """Applies the job to `pipeline`."""
    _ = (
        pipeline
        | Stream(shards(work.keys, PER_KEY, TURN_MS), make_alarms, tuple[str, int])
        | "Alarm" >> beam.ParDo(Alarm(work.out)).with_output_types(tuple[str, int])
        | Tally(measure, 2, work.out, stream=True)
    )


def result(work: Work) -> list[int]:
    """Timers, the sum of their numbers, and the sum weighted by key."""
    return read_tally(work.out)


def figures(work: Work) -> dict[str, float]:
    """Memory of the process that holds the timers."""
    return read_memory(work.out)


def expected(work: Work) -> list[int]:
    """`result` from arithmetic."""
    each = PER_KEY * (PER_KEY + 1) // 2
    checksum = each * sum(zlib.crc32(key_text(key).encode()) for key in range(work.keys))
    return [work.keys * PER_KEY, work.keys * (each - PER_KEY), checksum]
