"""How long a job of ten elements takes in a session that is warm, in turns with other checkouts.

Run: ``python -m benchmarks.short_jobs [--jobs N] [CHECKOUT ...]``. Each checkout, and this one, has
a process with a local session of two cores. They run the same job N times, one process at a time:
``Create``, a ``Map``, a ``GroupByKey`` and a ``Map``. Prints quartiles of the milliseconds from
``run()`` to the end, and the ratio of each median to that of this checkout. All use this Python, so
other checkouts must need the same packages.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions

_HERE = Path(__file__).resolve()
_CHILD = "--child"
_WARM_UP = 8


def seconds_of_a_job() -> float:
    """Of one job, in the session of this process."""
    flags = ["--runner=SparkDrainRunner", "--spark_master_url=local[2]", "--progress=off"]
    pipeline = beam.Pipeline(options=PipelineOptions(flags))
    _ = (
        pipeline
        | beam.Create(range(10))
        | beam.Map(lambda number: (number % 3, number))
        | beam.GroupByKey()
        | beam.MapTuple(lambda _, numbers: sum(numbers))
    )
    begin = time.monotonic()
    pipeline.run().wait_until_finish()
    return time.monotonic() - begin


def serve() -> None:
    """Run a job for each line of the standard input, and print its seconds."""
    for _ in range(_WARM_UP):
        seconds_of_a_job()
    print(flush=True)
    for _ in sys.stdin:
        print(seconds_of_a_job(), flush=True)


class Session:
    """A process that runs the job with the code of a checkout."""

    def __init__(self, checkout: Path, processes: ExitStack) -> None:
        sources = os.pathsep.join([str(checkout / "runner"), str(checkout)])
        self._process = processes.enter_context(
            subprocess.Popen(
                # Not with the folder of this file, whose modules have names of others.
                [sys.executable, "-P", str(_HERE), _CHILD],
                env={**os.environ, "PYTHONPATH": sources},
                cwd=checkout,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            )
        )
        self._answer()

    def job(self) -> float:
        """The seconds of one job."""
        assert self._process.stdin is not None
        print(file=self._process.stdin, flush=True)
        return float(self._answer())

    def _answer(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the process has ended"
        return line


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=60, help="in each session")
    parser.add_argument("checkouts", nargs="*", type=Path, help="to compare with")
    asked = parser.parse_args()
    checkouts = [_HERE.parent.parent, *(path.resolve() for path in asked.checkouts)]
    with ExitStack() as processes:
        sessions = [Session(checkout, processes) for checkout in checkouts]
        seconds: list[list[float]] = [[] for _ in sessions]
        for turn in range(asked.jobs):
            # Who is first in a turn is last in the next.
            order = range(len(sessions))
            for at in order if turn % 2 else reversed(order):
                seconds[at].append(sessions[at].job())
    own = statistics.median(seconds[0])
    print(f"{'checkout':30} {'p25':>6} {'p50':>6} {'p75':>6}  p50 / own")
    for checkout, each in zip(checkouts, seconds, strict=True):
        quartiles = " ".join(f"{1000 * at:6.0f}" for at in statistics.quantiles(each, n=4))
        print(f"{checkout.name:30} {quartiles}  {statistics.median(each) / own:.2f}")


if __name__ == "__main__":
    if _CHILD in sys.argv:
        sys.argv = sys.argv[:1]
        serve()
        os._exit(0)
    main()
