"""How long after its end a window's result is there, in a stream of a steady rate."""

from __future__ import annotations

import os
import time
import zlib
from collections import Counter
from typing import TYPE_CHECKING, Any

import apache_beam as beam
from apache_beam.io.restriction_trackers import OffsetRange
from apache_beam.io.watermark_estimators import ManualWatermarkEstimator
from apache_beam.transforms.combiners import Count
from apache_beam.transforms.window import FixedWindows, TimestampedValue
from apache_beam.utils.timestamp import Duration, Timestamp

from benchmarks.jobs.numbers import Numbers
from benchmarks.jobs.tally import Tally, read_tally

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from benchmarks.jobs.work import Work

RATE = 20_000  # elements a second, of all taps together
TAPS = 2
WINDOW_SECONDS = 0.25
PAUSE = Duration(0.02)  # between two looks at the clock
LEAD_SECONDS = 2  # from the pipeline's first element to the stream's: until all of it stands
SETTLE_SECONDS = 5  # windows of the first seconds do not count


class TapNumbers(Numbers):
    """The numbers of a tap's elements."""

    def initial_restriction(self, tap: tuple[int, int, int]) -> OffsetRange:
        return OffsetRange(0, tap[1])


class Drip(beam.DoFn):
    """Emits what is due by the wall clock; an element's timestamp is the moment it is due."""

    def __init__(self, keys: int) -> None:
        self._keys = keys

    @beam.DoFn.unbounded_per_element()
    def process(
        self,
        tap: tuple[int, int, int],
        tracker: Any = beam.DoFn.RestrictionParam(TapNumbers()),
        watermark: Any = beam.DoFn.WatermarkEstimatorParam(
            ManualWatermarkEstimator.default_provider()
        ),
    ) -> Iterator[TimestampedValue]:
        number, count, origin = tap
        first = tracker.current_restriction().start
        due = min(count, (time.time_ns() // 1000 - origin) * RATE // TAPS // 1_000_000)
        if due > first:
            if not tracker.try_claim(due - 1):
                return
            for i in range(first, due):
                at = Timestamp(micros=due_at(origin, i))
                yield TimestampedValue((key_text((TAPS * i + number) % self._keys), 1), at)
            watermark.set_watermark(Timestamp(micros=due_at(origin, due)))
        if due < count:
            tracker.defer_remainder(PAUSE)


class Arrivals(beam.DoFn):
    """Notes when each result is there; passes it on."""

    def __init__(self, out: Path) -> None:
        self._out = str(out)

    def start_bundle(self) -> None:
        self._delays: Counter[tuple[int, int]] = Counter()

    def process(
        self, element: tuple[str, int], window: Any = beam.DoFn.WindowParam
    ) -> Iterator[tuple[str, int]]:
        end = window.end.micros
        self._delays[end, (time.time_ns() // 1000 - end) // 1000] += 1
        yield element

    def finish_bundle(self) -> None:
        path = os.path.join(self._out, f"delays-{os.getpid()}.txt")
        lines = [f"{end} {delay} {count}\n" for (end, delay), count in self._delays.items()]
        with open(path, "a", encoding="ascii") as f:
            f.write("".join(lines))


def due_at(origin: int, number: int) -> int:
    """When the tap's element of this number is due, microseconds."""
    return origin + number * 1_000_000 * TAPS // RATE


def key_text(key: int) -> str:
    """The key with this number."""
    return f"k{key:05d}"


def measure(row: tuple[str, int]) -> tuple[int, int]:
    """The count, and a product that changes if an element strays to another key."""
    key, count = row
    return count, zlib.crc32(key.encode()) * count


def build(pipeline: beam.Pipeline, work: Work) -> None:
    """Applies the job to `pipeline`."""
    counts = [len(range(number, work.n, TAPS)) for number in range(TAPS)]

    def taps(_: bytes) -> list[tuple[int, int, int]]:
        origin = time.time_ns() // 1000 + LEAD_SECONDS * 1_000_000
        return [(number, count, origin) for number, count in enumerate(counts)]

    _ = (
        pipeline
        | "Impulse" >> beam.Impulse()
        | "Taps" >> beam.FlatMap(taps).with_output_types(tuple[int, int, int])
        | "Spread" >> beam.Reshuffle()
        | "Drip" >> beam.ParDo(Drip(work.keys)).with_output_types(tuple[str, int])
        | "Fixed" >> beam.WindowInto(FixedWindows(WINDOW_SECONDS))
        | "Count" >> Count.PerKey()
        | "Arrivals" >> beam.ParDo(Arrivals(work.out)).with_output_types(tuple[str, int])
        | Tally(measure, 2, work.out, stream=True)
    )


def result(work: Work) -> list[int]:
    """The sum of the counts, and the sum weighted by key; how many counts depends on the clock."""
    return read_tally(work.out)[1:]


def figures(work: Work) -> dict[str, float]:
    """Milliseconds from the end of a window to its result, over results (keys x windows)."""
    rows = [
        tuple(map(int, line.split()))
        for path in work.out.glob("delays-*.txt")
        for line in path.read_text(encoding="ascii").splitlines()
    ]
    settled = min(end for end, _, _ in rows) + SETTLE_SECONDS * 1_000_000
    # A run of a few seconds, which only tries things out, has nothing else.
    counted = [row for row in rows if row[0] >= settled] or rows
    return {f"p{q} (ms)": quantile([row[1:] for row in counted], q / 100) for q in (50, 99)}


def quantile(weighted: Sequence[tuple[int, ...]], q: float) -> float:
    """The smallest value that a share `q` of the weights is not above; of (value, weight)."""
    left = q * sum(weight for _, weight in weighted)
    for value, weight in sorted(weighted):
        left -= weight
        if left <= 0:
            return float(value)
    raise ValueError(weighted)


def expected(work: Work) -> list[int]:
    """`result` from arithmetic."""
    counts = Counter(
        (TAPS * i + number) % work.keys
        for number in range(TAPS)
        for i in range(len(range(number, work.n, TAPS)))
    )
    rows = [measure((key_text(key), count)) for key, count in counts.items()]
    return [sum(row[0] for row in rows), sum(row[1] for row in rows)]
