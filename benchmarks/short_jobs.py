"""How long a job of ten elements takes in a session that is warm, in turns with other checkouts.

Run: ``python -m benchmarks.short_jobs [--jobs N] [--process] [CHECKOUT ...]``. Each checkout, and
this one, has a process with a local session of two cores. They run the same job N times, one
process at a time: ``Create``, a ``Map``, a ``GroupByKey`` and a ``Map``; with ``--process``, in SDK
harnesses that are processes of their own (``PROCESS``). Prints the milliseconds from ``run()`` to
the end: of the first job, which starts the session, and quartiles of the N; and the ratio of each
median to that of this checkout. All use this Python, so other checkouts must need the same
packages.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import statistics
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions

_HERE = Path(__file__).resolve()
_CHILD = "--child"
_PROCESS = "--process"
_WARM_UP = 7


def seconds_of_a_job(*options: str) -> float:
    """Of one job, in the session of this process."""
    local = ["--runner=SparkDrainRunner", "--spark_master_url=local[2]", "--progress=off"]
    flags = [*local, *options]
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


def serve(*options: str) -> None:
    """Print the seconds of the first job, and those of a warm one for each line that comes."""
    first = seconds_of_a_job(*options)
    for _ in range(_WARM_UP):
        seconds_of_a_job(*options)
    print(first, flush=True)
    for _ in sys.stdin:
        print(seconds_of_a_job(*options), flush=True)


def _in_processes() -> list[str]:
    """The options that put user code into processes beside the slots."""
    command = f"{shlex.quote(sys.executable)} -P -m sparkdrain.cli.main worker"
    config = json.dumps({"command": command})
    return ["--environment_type=PROCESS", f"--environment_config={config}"]


class Session:
    """A process that runs the job with the code of a checkout."""

    first: float
    """The seconds of its first job."""

    def __init__(self, checkout: Path, processes: ExitStack, errors: IO[str], *flags: str) -> None:
        sources = os.pathsep.join([str(checkout / "runner"), str(checkout)])
        self._errors = errors
        self._process = processes.enter_context(
            subprocess.Popen(
                # Not with the folder of this file, whose modules have names of others.
                [sys.executable, "-P", str(_HERE), _CHILD, *flags],
                env={**os.environ, "PYTHONPATH": sources},
                cwd=checkout,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                text=True,
            )
        )
        self.first = float(self._answer())

    def job(self) -> float:
        """The seconds of one job."""
        assert self._process.stdin is not None
        print(file=self._process.stdin, flush=True)
        return float(self._answer())

    def _answer(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            self._errors.seek(0)
            sys.exit(f"a session has ended:\n{self._errors.read()}")
        return line


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=60, help="in each session")
    parser.add_argument(_PROCESS, action="store_true", help="user code in processes of its own")
    parser.add_argument("checkouts", nargs="*", type=Path, help="to compare with")
    asked = parser.parse_args()
    checkouts = [_HERE.parent.parent, *(path.resolve() for path in asked.checkouts)]
    with ExitStack() as processes:
        flags = [_PROCESS] if asked.process else []
        sessions = [
            Session(checkout, processes, processes.enter_context(TemporaryFile("w+")), *flags)
            for checkout in checkouts
        ]
        seconds: list[list[float]] = [[] for _ in sessions]
        for turn in range(asked.jobs):
            # Who is first in a turn is last in the next.
            order = range(len(sessions))
            for at in order if turn % 2 else reversed(order):
                seconds[at].append(sessions[at].job())
    own = statistics.median(seconds[0])
    print(f"{'checkout':30} {'first':>6} {'p25':>6} {'p50':>6} {'p75':>6}  p50 / own")
    for checkout, session, each in zip(checkouts, sessions, seconds, strict=True):
        shown = [session.first, *statistics.quantiles(each, n=4)]
        figures = " ".join(f"{1000 * at:6.0f}" for at in shown)
        print(f"{checkout.name:30} {figures}  {statistics.median(each) / own:.2f}")


if __name__ == "__main__":
    if _CHILD in sys.argv:
        options = _in_processes() if _PROCESS in sys.argv else []
        sys.argv = sys.argv[:1]
        serve(*options)
        os._exit(0)
    main()
