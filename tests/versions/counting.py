"""A stream that survives a kill, for every version: it counts numbers by window, and is drained.

    python counting.py FOLDER --runner=SparkDrainRunner --job_name=counting \
        --checkpoint_dir=... --metadata_store=file:...

It uses what Beam offers and nothing else: an endless source, a stateful DoFn with a timer, a sum
for each window. FOLDER gets one file for each source and window. A file that is written again has
the same content, so a replay changes nothing. ``exact`` says whether the files are right.
"""

# No `from __future__ import annotations`: Beam chooses coders by the annotations' types.
import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import apache_beam as beam
from apache_beam.coders import VarIntCoder
from apache_beam.io.restriction_trackers import OffsetRange, OffsetRestrictionTracker
from apache_beam.io.watermark_estimators import ManualWatermarkEstimator
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.transforms.userstate import CombiningValueStateSpec, TimerSpec, on_timer
from apache_beam.transforms.window import FixedWindows, TimestampedValue
from apache_beam.utils.timestamp import Duration, Timestamp

SOURCES = ("a", "b", "c")
WINDOW = 50  # seconds; a number is one second
PAUSE = 0.02  # seconds between five numbers of a source
END = 10**9


class _Endless(OffsetRestrictionTracker):
    def is_bounded(self) -> bool:
        return False


class _Numbers(beam.RestrictionProvider):
    def initial_restriction(self, element: str) -> OffsetRange:
        return OffsetRange(0, END)

    def create_tracker(self, restriction: OffsetRange) -> _Endless:
        return _Endless(restriction)

    def restriction_size(self, element: str, restriction: OffsetRange) -> int:
        return restriction.size()


class Numbers(beam.DoFn):
    """0, 1, 2, ... of each source. Says once for each process where it began."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    @beam.DoFn.unbounded_per_element()
    def process(
        self,
        source: str,
        tracker: Any = beam.DoFn.RestrictionParam(_Numbers()),
        estimator: Any = beam.DoFn.WatermarkEstimatorParam(
            ManualWatermarkEstimator.default_provider()
        ),
    ) -> Iterator[TimestampedValue]:
        number = tracker.current_restriction().start
        began = Path(self._folder) / f"began-{source}-{os.getpid()}"
        if not began.exists():
            began.write_text(str(number))
        for _ in range(5):
            if not tracker.try_claim(number):
                return
            yield TimestampedValue((source, number), number)
            number += 1
            estimator.set_watermark(Timestamp(number))
        tracker.defer_remainder(Duration(seconds=PAUSE))


class Count(beam.DoFn):
    """Counts the numbers of a source and window in state; a timer gives the count away."""

    COUNT = CombiningValueStateSpec("count", VarIntCoder(), sum)
    FULL = TimerSpec("full", TimeDomain.WATERMARK)

    def process(
        self,
        element: tuple[str, int],
        window: Any = beam.DoFn.WindowParam,
        count: Any = beam.DoFn.StateParam(COUNT),
        full: Any = beam.DoFn.TimerParam(FULL),
    ) -> None:
        count.add(1)
        full.set(window.max_timestamp())

    @on_timer(FULL)
    def give(
        self, key: str = beam.DoFn.KeyParam, count: Any = beam.DoFn.StateParam(COUNT)
    ) -> Iterable[tuple[str, tuple[int, int]]]:
        return [(key, (0, count.read()))]


class Write(beam.DoFn):
    """Writes the sum and the count of a source and window into a file of their own."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def process(
        self, element: tuple[str, tuple[int, int]], window: Any = beam.DoFn.WindowParam
    ) -> None:
        source, (summed, counted) = element
        file = Path(self._folder) / f"window-{source}-{int(window.start)}"
        unnamed = file.with_name(f"unnamed-{os.getpid()}")
        unnamed.write_text(f"{summed} {counted}")
        unnamed.rename(file)


def _as_sum(element: tuple[str, int]) -> tuple[str, tuple[int, int]]:
    return element[0], (element[1], 0)


def _added(parts: Iterable[tuple[int, int]]) -> tuple[int, int]:
    parts = list(parts)
    return sum(part[0] for part in parts), sum(part[1] for part in parts)


def counting(pipeline: beam.Pipeline, folder: str) -> None:
    """Sums by a GroupByKey, counts by state and a timer; both meet in one more GroupByKey."""
    numbers = (
        pipeline
        | beam.Create(SOURCES)
        | beam.ParDo(Numbers(folder)).with_output_types(tuple[str, int])
        | beam.WindowInto(FixedWindows(WINDOW))
    )
    sums = numbers | beam.Map(_as_sum) | beam.CombinePerKey(_added)
    counts = numbers | beam.ParDo(Count()).with_output_types(tuple[str, tuple[int, int]])
    both = (sums, counts) | beam.Flatten() | "Meet" >> beam.CombinePerKey(_added)
    _ = both | beam.ParDo(Write(folder))


def windows(folder: Path) -> dict[str, dict[int, tuple[int, int]]]:
    """By source and by the window's start: the sum and the count that came out."""
    found: dict[str, dict[int, tuple[int, int]]] = {source: {} for source in SOURCES}
    for file in folder.glob("window-*"):
        _, source, start = file.name.split("-")
        summed, counted = file.read_text().split()
        found[source][int(start)] = int(summed), int(counted)
    return found


def exact(folder: Path) -> dict[str, int]:
    """How many numbers each source gave, if each came out once and in its window.

    Raises:
        AssertionError: a number is missing or came out twice.
    """
    totals = {}
    for source, found in windows(folder).items():
        total = sum(count for _, count in found.values())
        expected = {}
        for start in range(0, total, WINDOW):
            inside = range(start, min(start + WINDOW, total))
            expected[start] = sum(inside), len(inside)
        assert found == expected, f"source {source}: {found} is not {expected}"
        assert total, f"source {source} gave nothing"
        totals[source] = total
    return totals


def main(arguments: list[str]) -> int:
    """Runs the stream to its end; prints how it ended."""
    folder, *flags = arguments
    pipeline = beam.Pipeline(options=PipelineOptions(flags))
    counting(pipeline, folder)
    result = pipeline.run()
    result.wait_until_finish()
    print(result.state)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
