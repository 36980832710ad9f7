"""What a level costs that has nothing to do: Spark's part, and the way to Python and back.

Run: ``python -m benchmarks.level_cost [--levels N] [--runs N] [--options=JAVA_OPTIONS ...]``. Each
run is a new process with a new JVM, ``local[2]``, that runs rounds of three empty levels, as
a streaming job does from its first round on. Prints the median milliseconds of the first 50 levels,
the next 100, and the rest. With ``--options``, given once or more, runs with these options of the
driver's JVM and runs with the runner's own take turns.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Final

from sparkdrain.options import JobSettings
from sparkdrain.stages.cluster.class_data import JAVA_OPTIONS
from sparkdrain.stages.cluster.context import spark_context
from sparkdrain.stages.spark.exchange import Exchange, partitioner

if TYPE_CHECKING:
    from collections.abc import Iterator

SLOTS: Final = 2
PARTITIONS: Final = 11  # as many as the five levels of stream-state have
LEVELS: Final = 3  # of a round
PARTS: Final = (0, 50, 150)


def nothing(slot: int, records: Iterator[bytes]) -> Iterator[tuple[int, bytes]]:
    """Reads what there is, and sends a word to each slot."""
    del slot
    for _ in records:
        pass
    for partition in range(SLOTS):
        yield partition, b"-"


def run_levels(count: int, options: str | None) -> list[float]:
    """The seconds that each of so many levels took."""
    conf = () if options is None else ((JAVA_OPTIONS, options),)
    settings = JobSettings(spark_conf=conf, spark_master_url=f"local[{SLOTS}]")
    context = spark_context(settings)
    same = partitioner(context, PARTITIONS, 1)
    seconds: list[float] = []
    round_: list[Exchange] = []
    while len(seconds) < count:
        start = time.perf_counter()
        level = Exchange(context, nothing, round_[-1:], range(SLOTS), same)
        level.run()
        seconds.append(time.perf_counter() - start)
        round_.append(level)
        if len(round_) == LEVELS:
            for level in round_:
                level.drop()
            round_ = []
    context.stop()
    return seconds


def medians(seconds: list[float]) -> str:
    """Of the first levels, those that follow, and the rest, in milliseconds."""
    bounds = zip(PARTS, (*PARTS[1:], len(seconds)), strict=True)
    parts = (seconds[start:stop] for start, stop in bounds)
    return " | ".join(f"{statistics.median(part) * 1000:.1f}" if part else "-" for part in parts)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--levels", type=int, default=400)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--options", action="append", default=[], help="of the driver's JVM")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        print(medians(run_levels(given.levels, given.options[0] if given.options else None)))
        return
    print("| options of the JVM | first 50 | next 100 | rest |\n|---|---|---|---|")
    command = [sys.executable, "-m", "benchmarks.level_cost", "--child", f"--levels={given.levels}"]
    for _ in range(given.runs):
        for options in (None, *given.options):
            more = [] if options is None else ["--options=" + options]
            done = subprocess.run([*command, *more], stdout=subprocess.PIPE, text=True, check=True)
            print(f"| {options or 'own'} | {done.stdout.strip().splitlines()[-1]} |", flush=True)


if __name__ == "__main__":
    main()
