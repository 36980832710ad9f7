"""The parts of the page: each measures and returns what stands in its place."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from benchmarks.contest import measure_job
from benchmarks.page import sizes
from benchmarks.page.tables import (
    aims_table,
    edge_note,
    figures_lines,
    rates_table,
    settings_table,
    starts_table,
    steps_table,
)
from benchmarks.plan import ROOT
from benchmarks.startup import measure_startup

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from benchmarks.jobs import Job
    from benchmarks.lane import Log
    from benchmarks.plan import Plan
    from benchmarks.rows import Row

_ELEMENTS = 300_000
_DRAINED = 1_000_000
_FLOW = 5_000_000
_COMMAND_SECONDS = 600
_TURNS = 2


def measure_streams(plan: Plan, log: Log) -> str:
    """Streams, and every setting of their peers."""
    text, rows = _compared(sizes.STREAMS, replace(plan, runs=2 * plan.runs), log)
    steps = steps_table(rows)
    return f"{text}\n\nWhat saving and exchanging add to the CPU time of an element:\n\n{steps}"


def measure_batch(plan: Plan, log: Log) -> str:
    """Batch jobs, and both settings of Beam's Spark runner."""
    return _compared(sizes.BATCH, plan, log)[0]


def measure_clock(plan: Plan, log: Log) -> str:
    """Delay by the clock, and the memory that timers take; of this runner alone."""
    ours = replace(plan, runners=plan.runners[:1])
    return figures_lines(sizes.CLOCK, _rows(sizes.CLOCK, ours, log))


def measure_starts(plan: Plan, log: Log) -> str:
    """Cold processes."""
    return starts_table(measure_startup(replace(plan, runs=2 * plan.runs), log))


def measure_elements(plan: Plan, log: Log) -> str:
    """What undoing and timers cost an element, in one process without Spark, in turns."""
    n = max(1000, round(_ELEMENTS * plan.scale))
    ways = {
        "timers, undo (`stream-state`)": ["stream-state"],
        "no timers, undo (`stream-count`)": ["stream-count"],
        "no timers, no undo (`stream-count --no-undo`)": ["stream-count", "--no-undo"],
    }
    found: dict[str, list[float]] = {way: [] for way in ways}
    for _ in range(_TURNS * plan.runs + 1):
        for way, arguments in ways.items():
            command = ["benchmarks.element_cost", arguments[0], str(n), "--slots=2", *arguments[1:]]
            last = _said(command).splitlines()[-1]
            found[way].append(float(last.rstrip(" |").rpartition("|")[2]))
    log({"event": "elements", "found": found})
    lines = ["| what an element has | CPU µs per element, each run | least |", "|---|---|---|"]
    for way, costs in found.items():
        runs = ", ".join(f"{cost:.2f}" for cost in costs)
        lines.append(f"| {way} | {runs} | {min(costs):.2f} |")
    return "\n".join(lines)


def measure_drain(plan: Plan, log: Log) -> str:
    """What a drain takes, as its own program tells it."""
    n, flow = max(1000, round(_DRAINED * plan.scale)), max(10_000, round(_FLOW * plan.scale))
    command = ["benchmarks.drain", "--only=idle,inside,flow", f"--n={n}", f"--flow={flow}"]
    said = _said(command)
    log({"event": "drain", "said": said})
    return f"```\n{said}\n```"


PARTS: Final[dict[str, Callable[[Plan, Log], str]]] = {
    "streams": measure_streams,
    "elements": measure_elements,
    "batch": measure_batch,
    "drain": measure_drain,
    "starts": measure_starts,
    "clock": measure_clock,
}


def _compared(jobs: Sequence[Job], plan: Plan, log: Log) -> tuple[str, list[Row]]:
    rows = _rows(jobs, plan, log)
    tried = settings_table(rows) + edge_note(rows)
    aims = f"The aims, by rate:\n\n{aims_table(jobs, rows)}"
    every = f"Every setting that was tried in this run:\n\n{tried}"
    return "\n\n".join([rates_table(jobs, rows), aims, every]), rows


def _rows(jobs: Sequence[Job], plan: Plan, log: Log) -> list[Row]:
    rows: list[Row] = []
    for job in jobs:
        print(f"  {job.name}", file=sys.stderr, flush=True)
        rows += measure_job(job, plan, log)
    return rows


def _said(command: Sequence[str]) -> str:
    """What a program of this package prints; raises RuntimeError with the end of its errors."""
    done = subprocess.run(
        [sys.executable, "-m", *command],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "runner")])},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_COMMAND_SECONDS,
        check=False,
    )
    if done.returncode:
        message = f"python -m {' '.join(command)} failed: {done.stderr.strip()[-1000:]}"
        raise RuntimeError(message)
    return done.stdout.strip()
