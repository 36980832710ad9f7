"""A stream that gives all that it has and then waits for more, with windows and timers open."""

from __future__ import annotations

import os
import uuid
import zlib
from typing import TYPE_CHECKING, Any

import apache_beam as beam
from apache_beam.io.restriction_trackers import OffsetRange
from apache_beam.io.watermark_estimators import ManualWatermarkEstimator
from apache_beam.transforms.combiners import Count
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.transforms.userstate import TimerSpec, on_timer
from apache_beam.transforms.window import FixedWindows, TimestampedValue
from apache_beam.utils.timestamp import Duration, Timestamp

from benchmarks.jobs.memory import Witness
from benchmarks.jobs.numbers import Numbers
from benchmarks.jobs.tally import Tally
from benchmarks.jobs.turns import BLOCK, START_MS
from benchmarks.jobs.work import SHARDS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

DAY_SECONDS = 86_400
START = Timestamp(micros=START_MS * 1000)
_DUE = START + DAY_SECONDS
_AT_ONCE = 20_000
_REST_SECONDS = 2.0

Shard = tuple[int, int]
"""The number of its first element, and how many it has."""


class AllBlocks(Numbers):
    """The numbers of all blocks there are."""

    def initial_restriction(self, shard: Shard) -> OffsetRange:
        return OffsetRange(0, -(-shard[1] // BLOCK))

    def truncate(self, shard: Shard, blocks: OffsetRange) -> OffsetRange | None:
        """A drain reads on to the end, which is Beam's default."""
        return blocks


class Waiting(beam.DoFn):
    """Elements with numbers; when there are no more, it asks every two seconds. Time stands."""

    @beam.DoFn.unbounded_per_element()
    def process(
        self,
        shard: Shard,
        tracker: Any = beam.DoFn.RestrictionParam(Numbers()),
        watermark: Any = beam.DoFn.WatermarkEstimatorParam(
            ManualWatermarkEstimator.default_provider()
        ),
    ) -> Iterator[TimestampedValue]:
        watermark.set_watermark(START)
        number = tracker.current_restriction().start
        for _ in range(0, _AT_ONCE, BLOCK):
            block = block_of(shard, number)
            if not block:
                tracker.defer_remainder(Duration(seconds=_REST_SECONDS))
                return
            if not tracker.try_claim(number):
                return
            for one in block:
                yield TimestampedValue(one, START)
            number += 1
        tracker.defer_remainder()


class Reading(beam.DoFn):
    """The same elements from a source that has an end."""

    def process(
        self, shard: Shard, tracker: Any = beam.DoFn.RestrictionParam(AllBlocks())
    ) -> Iterator[TimestampedValue]:
        number = tracker.current_restriction().start
        while tracker.try_claim(number):
            for one in block_of(shard, number):
                yield TimestampedValue(one, START)
            number += 1


def block_of(shard: Shard, number: int) -> range:
    """The elements of a block."""
    first, count = shard
    return range(first + number * BLOCK, first + min(count, (number + 1) * BLOCK))


class Seen(beam.DoFn):
    """Counts elements in a file of its own, and gives them a key."""

    def __init__(self, counts: Path, keys: int) -> None:
        self._counts = str(counts)
        self._keys = keys

    def setup(self) -> None:
        self._path = os.path.join(self._counts, uuid.uuid4().hex)
        self._count = 0

    def process(self, number: int) -> Iterator[tuple[str, int]]:
        self._count += 1
        yield key_text(number % self._keys), number

    def finish_bundle(self) -> None:
        part = f"{self._path}.part"
        with open(part, "w", encoding="ascii") as file:
            file.write(str(self._count))
        os.replace(part, self._path)


class Watched(beam.DoFn):
    """Passes on what it gets, and says what its process takes."""

    def __init__(self, out: Path) -> None:
        self._out = str(out)

    def setup(self) -> None:
        self._witness = Witness(self._out)

    def process(self, element: Any) -> Iterator[Any]:
        yield element

    def finish_bundle(self) -> None:
        self._witness.look()


class Alarm(Watched):
    """Each element sets a timer of its own, which sends it a day later."""

    ALARM = TimerSpec("alarm", TimeDomain.WATERMARK)

    def process(self, element: tuple[str, int], alarm: Any = beam.DoFn.TimerParam(ALARM)) -> None:
        alarm.set(_DUE, dynamic_timer_tag=str(element[1]))

    @on_timer(ALARM)
    def on_alarm(self, key: Any = beam.DoFn.KeyParam) -> Iterator[tuple[str, int]]:
        yield key, 1


class PlainAlarm(Watched):
    """Each key sets its only timer, without a tag, which sends it a day later."""

    ALARM = TimerSpec("alarm", TimeDomain.WATERMARK)

    def process(self, element: tuple[str, int], alarm: Any = beam.DoFn.TimerParam(ALARM)) -> None:
        alarm.set(_DUE)

    @on_timer(ALARM)
    def on_alarm(self, key: Any = beam.DoFn.KeyParam) -> Iterator[tuple[str, int]]:
        yield key, 1


TIMERS = {"timers": Alarm, "plain timers": PlainAlarm}
"""Jobs whose elements wait for timers."""


def counted(counts: Path) -> int:
    """How many elements there were."""
    return sum(int(path.read_text(encoding="ascii")) for path in counts.glob("*[!t]"))


def key_text(number: int) -> str:
    """The key with this number."""
    return f"k{number:07d}"


def measure(row: tuple[str, int]) -> tuple[int, int]:
    """A count of a key, and a product that changes if it strays to another key."""
    key, count = row
    return count, zlib.crc32(key.encode()) * count


def expected(n: int, keys: int, *, counts: bool) -> list[int]:
    """What the tally of all that comes out says; of ``counts`` or of single elements."""
    rows = [measure((key_text(key), len(range(key, n, keys)))) for key in range(keys)]
    return [keys if counts else n, *map(sum, zip(*rows, strict=True))]


def build(pipeline: beam.Pipeline, kind: str, n: int, keys: int, home: Path) -> None:
    """Applies a job to ``pipeline``: ``windows``, one of ``TIMERS``, or ``reading`` to an end."""
    shards = [(n * s // SHARDS, n * (s + 1) // SHARDS - n * s // SHARDS) for s in range(SHARDS)]
    source = Reading() if kind == "reading" else Waiting()
    elements = (
        pipeline
        | beam.Impulse()
        | "Shards" >> beam.FlatMap(lambda _: shards).with_output_types(tuple[int, int])
        | "Spread" >> beam.Reshuffle()
        | "Read" >> beam.ParDo(source).with_output_types(int)
        | "Seen" >> beam.ParDo(Seen(home / "counts", keys)).with_output_types(tuple[str, int])
    )
    out = home / "out"
    if kind in TIMERS:
        alarm = TIMERS[kind](out)
        rows = elements | "Alarm" >> beam.ParDo(alarm).with_output_types(tuple[str, int])
    else:
        rows = (
            elements
            | "Day" >> beam.WindowInto(FixedWindows(DAY_SECONDS))
            | "Count" >> Count.PerKey()
            | "Watched" >> beam.ParDo(Watched(out)).with_output_types(tuple[str, int])
        )
    _ = rows | Tally(measure, 2, out, stream=True)
