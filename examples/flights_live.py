"""New York's departures of 2013, replayed as they happened: watch delays per airport as days close.

    python examples/flights_live.py --runner=SparkDrainRunner --days 14 --days_per_second 1

Each departure is told when it happened, some of them hours later and out of order, a few so late
that their day is over. A day of an airport has early panes while it goes on, one on time when the
watermark passes its end, and late ones while latecomers are still let in:

    day         airport  flights   mean delay   pane
    2013-01-01  EWR          305     17.5 min   on time
    2013-01-01  EWR          306     17.6 min   late

Every option that `--help` does not list goes to Beam and the runner, such as `--round_ms=500`.
"""

# No `from __future__ import annotations`: Beam chooses coders by the annotations' types.
import argparse
import csv
import json
import random
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, NamedTuple

import apache_beam as beam
from apache_beam.io.restriction_trackers import OffsetRange, OffsetRestrictionTracker
from apache_beam.io.watermark_estimators import ManualWatermarkEstimator
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms.core import RestrictionProvider
from apache_beam.transforms.trigger import (
    AccumulationMode,
    AfterCount,
    AfterProcessingTime,
    AfterWatermark,
)
from apache_beam.transforms.window import FixedWindows, TimestampedValue
from apache_beam.utils.timestamp import Duration, Timestamp
from apache_beam.utils.windowed_value import PaneInfoTiming
from flights_files import check_tables, unpack_tables

DAY = 24 * 60 * 60  # seconds
# How far the source lets the watermark trail behind what it has told: nearly all come within.
TRAILING = 3 * 60 * 60
# How long a day stays open for latecomers after the watermark has passed its end.
LATENESS = 12 * 60 * 60
PANES = {
    PaneInfoTiming.EARLY: "early",
    PaneInfoTiming.ON_TIME: "on time",
    PaneInfoTiming.LATE: "late",
}


class Departure(NamedTuple):
    """A flight that left, and when that was told."""

    told: float  # seconds since 1970
    left: float  # seconds since 1970: its event time
    airport: str
    delay: int  # minutes, negative if early


def departures(flights: Path, days: int) -> list[Departure]:
    """The first days of the year, in the order in which they are told; the same in every run."""
    chance = random.Random(2013)
    found = []
    with flights.open(newline="") as file:
        for row in csv.DictReader(file):
            if (int(row["month"]), int(row["day"])) > (1, 31):
                break
            if not row["dep_delay"].strip("NA"):
                continue  # cancelled
            hour = datetime.fromisoformat(row["time_hour"].replace("Z", "+00:00"))
            scheduled = hour.replace(tzinfo=timezone.utc).timestamp() + 60 * int(row["minute"])
            delay = int(float(row["dep_delay"]))
            left = scheduled + 60 * delay
            told = left + latency(chance)
            found.append(Departure(told, left, row["origin"], delay))
    first = min(departure.left for departure in found)
    return sorted(d for d in found if d.left < first + days * DAY)


def latency(chance: random.Random) -> float:
    """Seconds until a departure is told: mostly a minute, at times hours, rarely a day."""
    drawn = chance.random()
    if drawn < 0.97:
        return chance.expovariate(1 / 60)
    return chance.uniform(0, 6 * 3600) if drawn < 0.998 else chance.uniform(12, 36) * 3600


class Replay(beam.DoFn, RestrictionProvider):
    """Tells departures at their time, so many days to a second; ends after the last one.

    Its one element is when that begins, in seconds since 1970.
    """

    def __init__(self, told: list[Departure], days_per_second: float) -> None:
        self._told = told
        self._pace = days_per_second * DAY

    def initial_restriction(self, element: float) -> OffsetRange:
        return OffsetRange(0, len(self._told))

    def create_tracker(self, restriction: OffsetRange) -> OffsetRestrictionTracker:
        return OffsetRestrictionTracker(restriction)

    def restriction_size(self, element: float, restriction: OffsetRange) -> int:
        return restriction.size()

    @beam.DoFn.unbounded_per_element()
    def process(
        self,
        element: float,
        tracker: Any = beam.DoFn.RestrictionParam(),
        watermark: Any = beam.DoFn.WatermarkEstimatorParam(
            ManualWatermarkEstimator.default_provider()
        ),
    ) -> Iterator[TimestampedValue]:
        begin = self._told[0].told
        for number in range(tracker.current_restriction().start, len(self._told)):
            departure = self._told[number]
            wait = element + (departure.told - begin) / self._pace - time.time()
            if wait > 0:
                # Not yet: go on from here when it is time.
                tracker.defer_remainder(Duration(seconds=wait))
                return
            if not tracker.try_claim(number):
                return
            yield TimestampedValue((departure.airport, departure.delay), departure.left)
            watermark.set_watermark(Timestamp(departure.told - TRAILING))


class MeanDelay(beam.CombineFn):
    """Flights, and their mean delay in minutes."""

    def create_accumulator(self) -> tuple[int, int]:
        return 0, 0

    def add_input(self, accumulator: tuple[int, int], delay: int) -> tuple[int, int]:
        return accumulator[0] + 1, accumulator[1] + delay

    def merge_accumulators(self, accumulators: Any) -> tuple[int, int]:
        counts, sums = zip(*accumulators, strict=True)
        return sum(counts), sum(sums)

    def extract_output(self, accumulator: tuple[int, int]) -> tuple[int, float]:
        flights, minutes = accumulator
        return flights, minutes / flights if flights else 0.0


class Show(beam.DoFn):
    """Appends every pane to a file as a line of JSON, whole lines only."""

    def __init__(self, board: Path) -> None:
        self._board = board

    def process(
        self,
        result: tuple[str, tuple[int, float]],
        window: Any = beam.DoFn.WindowParam,
        pane: Any = beam.DoFn.PaneInfoParam,
    ) -> None:
        airport, (flights, mean) = result
        day = datetime.fromtimestamp(float(window.start), timezone.utc).date()
        row = [str(day), airport, flights, round(mean, 1), PANES.get(pane.timing, "only")]
        with self._board.open("a") as file:
            file.write(json.dumps(row) + "\n")


def build(pipeline: beam.Pipeline, told: list[Departure], pace: float, board: Path) -> None:
    """Delays per airport and day, in panes."""
    _ = (
        pipeline
        | beam.Impulse()
        # Not when the program begins: what it takes to start would be days of the replay.
        | "Begin" >> beam.Map(lambda _: time.time()).with_output_types(float)
        | "Replay" >> beam.ParDo(Replay(told, pace)).with_output_types(tuple[str, int])
        | beam.WindowInto(
            FixedWindows(DAY),
            trigger=AfterWatermark(early=AfterProcessingTime(1), late=AfterCount(1)),
            accumulation_mode=AccumulationMode.ACCUMULATING,
            allowed_lateness=Duration(seconds=LATENESS),
        )
        | "Mean delay" >> beam.CombinePerKey(MeanDelay())
        | "Show" >> beam.ParDo(Show(board))
    )


def follow(board: Path, over: threading.Event) -> None:
    """Prints what comes onto the board until the job is over."""
    sys.stdout.write(f"{'day':<12}{'airport':<9}{'flights':>7}{'mean delay':>13}   pane\n")
    with board.open() as file:
        while True:
            last = over.is_set()
            for line in file:
                day, airport, flights, mean, pane = json.loads(line)
                sys.stdout.write(f"{day:<12}{airport:<9}{flights:>7}{mean:>9} min   {pane}\n")
            sys.stdout.flush()
            if last:
                return
            time.sleep(0.1)


def main(argv: list[str]) -> None:
    """Replays, and shows panes as they fire."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--days", type=int, default=14, help="days of January to replay (1-31)")
    parser.add_argument("--days_per_second", type=float, default=1.0, help="how fast")
    parser.add_argument("--input", type=Path, help="a folder with flights.csv")
    known, rest = parser.parse_known_args(argv)
    with tempfile.TemporaryDirectory(prefix="flights-live-") as scratch:
        tables = check_tables(known.input) if known.input else unpack_tables(Path(scratch) / "in")
        told = departures(tables / "flights.csv", known.days)
        board, over = Path(scratch) / "board.jsonl", threading.Event()
        board.touch()
        reader = threading.Thread(target=follow, args=(board, over))
        reader.start()
        try:
            options = PipelineOptions(rest, streaming=True, save_main_session=True)
            with beam.Pipeline(options=options) as pipeline:
                build(pipeline, told, known.days_per_second, board)
        finally:
            over.set()
            reader.join()


if __name__ == "__main__":
    main(sys.argv[1:])
