"""What a crowd of strangers costs a stream: rounds, and the slowest of them, with it and without.

Run: ``python -m benchmarks.flood [--turns N] [--seconds N] [--silent N] [--pause SECONDS]``. One
program runs a stream on ``local-cluster``, one round after another with a checkpoint each second,
and a batch job beside it, so that all kinds of listeners are there. Its processes may have 1,024
open files. Without and with strangers take turns. At each listener there are N connections that
stay silent, and one that sends a byte each second. Whichever is closed is opened again SECONDS
later. Strangers use the cores of this machine, too.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import statistics
import tempfile
import time
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Final

import psutil

from tests.support.flood import flooded
from tests.support.steady_stream import SteadyStream

FILES: Final = 1024
FLAGS: Final = ("--spark_master_url=local-cluster[1,4,1024]", "--slots=2")
_COME_SECONDS: Final = 3.0
"""How long after its beginning a crowd is there."""


@dataclass
class Measured:
    """What was seen in the turns of one kind.

    Attributes:
        seconds: that they took together.
        cpu: seconds of CPU time of the program, its JVMs included.
        gaps: milliseconds from the end of a round to the end of the next one.
        opened: connections of strangers.
        handles: the most open files that a process had.
    """

    seconds: float = 0.0
    cpu: float = 0.0
    gaps: list[float] = field(default_factory=list)
    opened: int = 0
    handles: int = 0

    def row(self, name: str) -> str:
        """A row of the table."""
        p50, p99 = (statistics.quantiles(self.gaps, n=100)[at - 1] for at in (50, 99))
        figures = (
            f"{len(self.gaps) / self.seconds:.1f}",
            f"{p50:.0f}",
            f"{p99:.0f}",
            f"{1000 * self.cpu / len(self.gaps):.0f}",
            f"{self.opened / self.seconds:,.0f}",
            f"{self.handles}",
        )
        return f"| {name} | {' | '.join(figures)} |"


def _cpu(stream: SteadyStream) -> float:
    total = 0.0
    for process in stream.processes():
        with contextlib.suppress(psutil.Error):
            times = process.cpu_times()
            total += times.user + times.system
    return total


def measure(stream: SteadyStream, seconds: float, into: Measured) -> None:
    """Watch the stream for so long."""
    cpu, began = _cpu(stream), time.time_ns()
    time.sleep(seconds)
    ended = time.time_ns()
    into.cpu += _cpu(stream) - cpu
    into.seconds += (ended - began) / 1e9
    into.handles = max(into.handles, stream.handles())
    rounds = [at for at in stream.rounds() if began <= at <= ended]
    into.gaps += [(after - before) / 1e6 for before, after in pairwise(rounds)]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=15.0, help="of each turn")
    parser.add_argument("--silent", type=int, default=1000)
    parser.add_argument("--pause", type=float, default=1.0)
    given = parser.parse_args()
    alone, crowded = Measured(), Measured()
    with tempfile.TemporaryDirectory() as folder:
        stream = SteadyStream(Path(folder), FILES, *FLAGS)
        try:
            ports = stream.ports()
            for turn in range(given.turns):
                measure(stream, given.seconds, alone)
                with flooded(ports, given.silent, given.pause) as opened:
                    began = time.monotonic()
                    time.sleep(_COME_SECONDS)
                    measure(stream, given.seconds, crowded)
                    lasted = time.monotonic() - began
                crowded.opened += int(sum(opened.values()) * given.seconds / lasted)
                print(f"turn {turn}: load {os.getloadavg()[0]:.1f}", flush=True)
        finally:
            stream.end()
    print(f"\n{len(ports)} listeners, {given.silent} silent connections at each\n")
    print("| | rounds/s | p50, ms | p99, ms | CPU ms/round | connections/s | open files |")
    print("|---|---|---|---|---|---|---|")
    print(alone.row("alone"))
    print(crowded.row("with strangers"))


if __name__ == "__main__":
    main()
