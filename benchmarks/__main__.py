"""Command line: `python -m benchmarks [--quick] [--only JOBS] [--runners RUNNERS] ...`."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from contextlib import ExitStack
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.choice import chosen
from benchmarks.contest import measure_job
from benchmarks.jobs import BATCH, JOBS, KAFKA, STARTUP, STREAMING
from benchmarks.peers.fetch import BEAM_OF_JOB_SERVER, BYTEWAX
from benchmarks.plan import ROOT, Plan, fetch_kits
from benchmarks.ratios import ratios
from benchmarks.report import figures_table, goals_table, ratios_table, rows_table, startup_table
from benchmarks.runners import OURS, RUNNERS, runner_named
from benchmarks.startup import measure_startup

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.lane import Log
    from benchmarks.rows import Row

QUICK = {"scale": 0.02, "runs": 1, "limit": 120.0}
_SETS = {"batch": (STARTUP, *BATCH), "streaming": STREAMING, "kafka": KAFKA}
FULL = {"scale": 1.0, "runs": 3, "limit": 900.0}


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures and prints; 1 where ours has no figure or any result is wrong, else 0."""
    options = _options(arguments)
    runners = tuple(runner_named(name) for name in options.runners)
    jobs = [job for job in (*JOBS, *KAFKA) if job.name in options.only]
    wanted = [STARTUP, *jobs] if STARTUP.name in options.only else jobs
    used = tuple(runner for runner in runners if any(runner.takes(job) for job in wanted))
    kits = fetch_kits(options.cache, used)
    plan = Plan(used, options.runs, options.scale, options.limit, options.cache, kits)
    with ExitStack() as stack:
        log = _log_to(options.out, stack)
        log({"event": "machine", **_machine(plan)})
        print(_heading(plan), flush=True)
        starts = measure_startup(plan, log) if STARTUP.name in options.only else []
        if starts:
            print(f"\n## Start-up\n\n{startup_table(starts)}", flush=True)
        rows: list[Row] = []
        for job in jobs:
            rows += measure_job(job, plan, log)
            print(f"\n## {job.name}: {job.what}\n", flush=True)
            of_job = [row for row in rows if row.job == job.name]
            print(rows_table(of_job), flush=True)
            if figures := figures_table(of_job):
                print(f"\n{figures}", flush=True)
        found = ratios(jobs, rows)
        for ratio in found:
            log({"event": "ratio", **asdict(ratio), "verdict": ratio.verdict})
        if found:
            print(f"\n## Ratios: {OURS} to its peers\n\n{ratios_table(found)}", flush=True)
        if goals := goals_table(jobs, rows):
            print(f"\n## Goals of {OURS}\n\n{goals}", flush=True)
    problems = [*((r.runner, r.problem) for r in rows), *((s.runner, s.problem) for s in starts)]
    return int(any(_fatal(runner, problem) for runner, problem in problems))


def _fatal(runner: str, problem: str) -> bool:
    return problem.startswith("WRONG") or (runner == OURS and bool(problem))


def _log_to(path: Path | None, stack: ExitStack) -> Log:
    if path is None:
        return lambda event: None
    path.parent.mkdir(parents=True, exist_ok=True)
    file = stack.enter_context(path.open("w", buffering=1, encoding="utf-8"))

    def log(event: dict[str, Any]) -> None:
        file.write(json.dumps(event, ensure_ascii=False) + "\n")

    return log


def _machine(plan: Plan) -> dict[str, Any]:
    return {
        "cpus": os.cpu_count(),
        "load": os.getloadavg()[0],
        "platform": platform.platform(),
        "python": platform.python_version(),
        "beam": version("apache-beam"),
        "pyspark": version("pyspark"),
        "beam_of_job_server": BEAM_OF_JOB_SERVER,
        "bytewax": BYTEWAX,
        "scale": plan.scale,
        "runs": plan.runs,
    }


def _heading(plan: Plan) -> str:
    about = _machine(plan)
    lines = [
        f"# Benchmark: scale {plan.scale:g}, {plan.runs} timed runs, medians; "
        f"{about['cpus']} CPUs, load {about['load']:.1f} at the start",
        f"Python {about['python']}, Beam {about['beam']}, PySpark {about['pyspark']}; "
        f"Beam's job servers and their SDK {about['beam_of_job_server']}, "
        f"bytewax {about['bytewax']}",
    ]
    lines += ["", *(f"- {runner.name}: {runner.title}" for runner in plan.runners)]
    if plan.scale < FULL["scale"]:
        lines += ["", "Scaled down: fixed costs weigh more than in a full run; do not quote."]
    return "\n".join(lines)


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    usual = [STARTUP.name, *(job.name for job in JOBS)]
    known = [*usual, *(job.name for job in KAFKA)]
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Measures SparkDrainRunner and its peers in one run on this machine.",
    )
    parser.add_argument(
        "--only",
        default=",".join(usual),
        help=f"of {', '.join([*known, *_SETS])}",
    )
    names = [runner.name for runner in RUNNERS]
    families = list(dict.fromkeys(runner.family for runner in RUNNERS))
    listed = ", ".join(dict.fromkeys([*families, *names]))
    parser.add_argument(
        "--runners", default=",".join(names), help=f"peers, or settings of them: of {listed}"
    )
    parser.add_argument("--quick", action="store_true", help=f"defaults become {QUICK}")
    parser.add_argument("--runs", type=int, help=f"timed runs (default {FULL['runs']})")
    parser.add_argument("--scale", type=float, help="factor on every n (default 1)")
    parser.add_argument("--limit", type=float, help=f"seconds per run (default {FULL['limit']:g})")
    parser.add_argument("--out", type=Path, help="file for JSON lines")
    parser.add_argument("--cache", type=Path, default=ROOT / ".cache", help="fetched peers, text")
    options = parser.parse_args(arguments)
    for name, default in (QUICK if options.quick else FULL).items():
        if getattr(options, name) is None:
            setattr(options, name, default)
    sets = {name: ",".join(job.name for job in jobs) for name, jobs in _SETS.items()}
    options.only = ",".join(sets.get(name, name) for name in options.only.split(","))
    options.only = chosen(parser, "--only", options.only, known)
    wanted = set(options.runners.split(","))
    settings = [r.name for r in RUNNERS if r.family in wanted and r.name not in wanted]
    asked = [name for name in wanted if name in names or name not in families]
    options.runners = chosen(parser, "--runners", ",".join([*asked, *settings]), names)
    options.cache = options.cache.absolute()
    return options


if __name__ == "__main__":
    sys.exit(main())
