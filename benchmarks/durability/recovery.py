"""How long a job gives no output after an executor was killed, and that it counts everything once.

Run: ``python -m benchmarks.durability.recovery [--kills 3] [--checkpoint-ms 10000]``, on Linux. A
job on ``local-cluster[2,1,1024]`` counts, for ever, by key, what a clock sends it twenty times a
second, and writes each count down. In the middle of it, an executor is killed (SIGKILL). Timed is
from there to the first output of the processes that came after. In the end the job is drained, and
its counts must be those of a job to which nothing else has happened.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import apache_beam as beam
from apache_beam.coders import VarIntCoder
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms.periodicsequence import PeriodicImpulse
from apache_beam.transforms.userstate import CombiningValueStateSpec
from pyspark import SparkContext

if TYPE_CHECKING:
    from collections.abc import Iterator

GOAL_SECONDS = 15.0
EVERY = 0.05
KEYS = 5
HOUR = 3600
START_SECONDS = 300.0
LOST_SECONDS = 120.0
_EXECUTOR = "CoarseGrainedExecutorBackend"


class Count(beam.DoFn):
    """Counts a key's elements, and writes down which process says so, and when."""

    COUNT = CombiningValueStateSpec("count", VarIntCoder(), sum)

    def __init__(self, path: Path) -> None:
        self._path = str(path)

    def process(
        self, element: tuple[int, int], count: Any = beam.DoFn.StateParam(COUNT)
    ) -> Iterator[int]:
        count.add(1)
        number, total = element[1], count.read()
        with open(self._path, "a", encoding="ascii") as file:
            file.write(f"{time.time()} {os.getpid()} {number} {total}\n")
        yield from ()


class Told:
    """What the job has written down."""

    def __init__(self, path: Path) -> None:
        self._path = path
        path.touch()

    def lines(self) -> list[tuple[float, int, int, int]]:
        """Time, process, element, and count; a line that is being written is not there yet."""
        whole = self._path.read_text(encoding="ascii").rpartition("\n")[0].splitlines()
        fields = (line.split() for line in whole)
        return [(float(time_), int(pid), int(of), int(count)) for time_, pid, of, count in fields]

    def processes(self) -> set[int]:
        """All that have ever written."""
        return {pid for _, pid, _, _ in self.lines()}

    def wait_for_others(self, old: set[int], seconds: float) -> float:
        """When a process first wrote that is none of ``old``."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for time_, pid, _, _ in self.lines():
                if pid not in old:
                    return time_
            time.sleep(0.05)
        message = f"no new process has said anything for {seconds:g} s"
        raise TimeoutError(message)

    def wrong(self) -> str:
        """What is wrong with the counts; nothing if each element was counted once."""
        lines = self.lines()
        elements = 1 + max(number for _, _, number, _ in lines)
        counts = dict.fromkeys(range(KEYS), 0)
        for _, _, number, count in lines:
            counts[number % KEYS] = max(count, counts[number % KEYS])
        expected = {key: len(range(key, elements, KEYS)) for key in range(KEYS)}
        return "" if counts == expected else f"counted {counts} instead of {expected}"


def executors(application: str) -> list[int]:
    """The executors of a Spark application on this machine."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            words = (entry / "cmdline").read_bytes().decode(errors="replace")
        except OSError:
            continue
        if entry.name.isdigit() and _EXECUTOR in words and application in words:
            found.append(int(entry.name))
    return found


def start(home: Path, checkpoint_ms: int) -> Any:
    """The job, running."""
    begin = time.time()
    every, keys = EVERY, KEYS
    options = [
        "--runner=sparkdrain.SparkDrainRunner",
        "--spark_master_url=local-cluster[2,1,1024]",
        "--progress=off",
        "--job_name=recovery",
        f"--checkpoint_dir={home}/checkpoints",
        f"--checkpoint_ms={checkpoint_ms}",
        f"--spark_conf=spark.local.dir={home}/local",
    ]
    pipeline = beam.Pipeline(options=PipelineOptions(options))
    _ = (
        pipeline
        | PeriodicImpulse(begin, begin + HOUR, EVERY)
        | "Number" >> beam.Map(lambda now: round((now - begin) / every))
        | "Key"
        >> beam.Map(lambda number: (number % keys, number)).with_output_types(tuple[int, int])
        | beam.ParDo(Count(home / "told"))
    )
    return pipeline.run()


def kill_one(told: Told, draw: random.Random) -> float:
    """Kills an executor; how many seconds later there is new output."""
    old = told.processes()
    victim = draw.choice(executors(SparkContext._active_spark_context.applicationId))  # noqa: SLF001
    killed = time.time()
    os.kill(victim, signal.SIGKILL)
    return told.wait_for_others(old, LOST_SECONDS) - killed


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.durability.recovery")
    parser.add_argument("--kills", type=int, default=3, help="default 3")
    parser.add_argument("--every", type=float, default=30, help="seconds between them (30)")
    parser.add_argument("--checkpoint-ms", type=int, default=10_000, help="default 10000")
    options = parser.parse_args()
    draw = random.Random(1)
    with tempfile.TemporaryDirectory(prefix="recovery-", ignore_cleanup_errors=True) as home:
        told = Told(Path(home) / "told")
        result = start(Path(home), options.checkpoint_ms)
        told.wait_for_others(set(), START_SECONDS)
        seconds = []
        for number in range(1, options.kills + 1):
            time.sleep(options.every + draw.random() * options.checkpoint_ms / 1000)
            seconds.append(kill_one(told, draw))
            print(f"kill {number}: output after {seconds[-1]:.1f} s; ", end="")
            print(f"load {os.getloadavg()[0]:.1f}", flush=True)
        result.drain()
        state = result.wait_until_finish()
        wrong = told.wrong()
    met = "met" if max(seconds) <= GOAL_SECONDS else "NOT MET"
    print(f"median {statistics.median(seconds):.1f} s, most {max(seconds):.1f} s ", end="")
    print(f"(within {GOAL_SECONDS:g} s: {met})")
    print(f"{state}; ", f"WRONG: {wrong}" if wrong else "each element was counted once")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
