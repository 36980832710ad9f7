"""Start-up: a trivial pipeline in a cold process, and a second one in the same process.

`python -m benchmarks.startup` measures this alone; `python -m benchmarks` does it first.
"""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

from benchmarks.child import Session, SessionFailed
from benchmarks.jobs import STARTUP, job_module
from benchmarks.rows import StartRow

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.lane import Log
    from benchmarks.plan import Plan
    from benchmarks.runners import Runner


def measure_startup(plan: Plan, log: Log) -> list[StartRow]:
    """A cold process per runner and repetition; the runners take turns."""
    runners = plan.runners_of(STARTUP)
    times: dict[str, list[tuple[float, float]]] = {runner.name: [] for runner in runners}
    problems = {runner.name: plan.obstacle(runner) for runner in runners}
    for _ in range(plan.runs):
        for runner in runners:
            if problems[runner.name]:
                continue
            try:
                first, second = _start(plan, runner)
            except SessionFailed as e:
                problems[runner.name] = f"FAILED: {e}"
                continue
            times[runner.name].append((first, second))
            log({"event": "startup", "runner": runner.name, "first": first, "second": second})
    return [_row(runner.name, times[runner.name], problems[runner.name]) for runner in runners]


def _start(plan: Plan, runner: Runner) -> tuple[float, float]:
    begin = time.monotonic()
    session = Session(plan.command(STARTUP, runner), plan.environment(runner))
    try:
        session.wait_ready(plan.limit)
        first = _trivial(plan, session, "first")
        cold = time.monotonic() - begin
        second = _trivial(plan, session, "second")
    finally:
        session.close()
    if first < 0 or second < 0:
        reason = "the trivial pipeline gave a wrong result"
        raise SessionFailed(reason)
    return round(cold, 3), round(second, 3)


def _trivial(plan: Plan, session: Session, name: str) -> float:
    work = plan.work(STARTUP, STARTUP.size, session.directory / name)
    measured = session.run(work, plan.limit)
    right = measured.result == job_module("jobs", STARTUP).expected(work)
    return measured.seconds if right else -1.0


def _row(name: str, times: Sequence[tuple[float, float]], problem: str) -> StartRow:
    return StartRow(name, [first for first, _ in times], [second for _, second in times], problem)


if __name__ == "__main__":
    from benchmarks.__main__ import main

    sys.exit(main(["--only=startup", *sys.argv[1:]]))
