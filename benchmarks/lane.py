"""One job on one runner: a warm session, its runs so far, and what went wrong if anything did."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.child import Measured, Session, SessionFailed
from benchmarks.jobs import Job, job_module, job_named
from benchmarks.rows import Row
from benchmarks.text import words_in

if TYPE_CHECKING:
    from benchmarks.jobs.work import Work
    from benchmarks.plan import Plan
    from benchmarks.runners import Runner

Log = Callable[[dict[str, Any]], None]
"""Takes one event of the run, for the JSON lines."""


class Lane:
    """A failure ends the lane, never the benchmark; later calls do nothing then."""

    def __init__(self, job: Job, runner: Runner, plan: Plan, log: Log) -> None:
        self._job = job
        self._runner = runner
        self._plan = plan
        self._log = log
        self._session: Session | None = None
        self._measured: list[Measured] = []
        self._warm_up: float | None = None
        self._elements = 0
        self.problem = plan.obstacle(runner)

    def open(self) -> None:
        """Starts the session and warms it up with a smaller run."""
        if self.problem:
            return
        command = self._plan.command(self._job, self._runner)
        environment = self._plan.environment(self._runner)
        self._session = Session(command, environment, self._plan.checkout)
        try:
            self._session.wait_ready(self._plan.limit)
        except SessionFailed as e:
            self._fail(str(e))
            return
        first = self._order(self._plan.warm_up_size(self._job, self._runner), "warm-up")
        self._warm_up = first.seconds if first else None

    def run(self) -> None:
        """One timed run."""
        measured = self._order(self._plan.size(self._job, self._runner), "timed")
        if measured:
            self._measured.append(measured)

    def close(self) -> None:
        """Ends the session."""
        if self._session is not None:
            self._session.close()
            self._session = None

    def row(self, *, outdone: bool = False) -> Row:
        """What is known now; `outdone` if another setting of the same peer was faster."""
        return Row(
            job=self._job.name,
            runner=self._runner.name,
            family=self._runner.family,
            n=self._plan.size(self._job, self._runner),
            elements=self._elements,
            share=self._plan.share(self._job, self._runner),
            warm_up=self._warm_up,
            seconds=[m.seconds for m in self._measured],
            cpu=[m.cpu for m in self._measured],
            loads=[m.load for m in self._measured],
            figures=_by_name([m.figures for m in self._measured]),
            peak_rss=max((m.peak_rss for m in self._measured), default=0),
            problem=self.problem,
            outdone=outdone,
        )

    def _order(self, n: int, kind: str) -> Measured | None:
        if self.problem or self._session is None:
            return None
        work = self._plan.work(self._job, n, self._session.directory / f"out-{time.time_ns()}")
        self._elements = words_in(work.text) if self._job.of_text else n
        expected = _expected(self._job, work)
        try:
            measured = self._session.run(work, self._plan.limit)
        except SessionFailed as e:
            self._fail(f"{kind} run: {e}")
            return None
        shutil.rmtree(work.out, ignore_errors=True)
        self._log(
            {
                "event": "run",
                "job": self._job.name,
                "runner": self._runner.name,
                "kind": kind,
                "n": n,
                "elements": self._elements,
                **asdict(measured),
            }
        )
        if measured.result != expected:
            self._fail(f"WRONG RESULT: {measured.result}, expected {expected}")
            return None
        return measured

    def _fail(self, reason: str) -> None:
        self.problem = reason if reason.startswith("WRONG") else f"FAILED: {reason}"
        self.close()


def _by_name(figures: list[dict[str, float]]) -> dict[str, list[float]]:
    names = dict.fromkeys(name for run in figures for name in run)
    return {name: [run[name] for run in figures if name in run] for name in names}


def _expected(job: Job, work: Work) -> list[int]:
    return _expected_once(job.name, replace(work, out=Path()))


@cache
def _expected_once(job: str, work: Work) -> list[int]:
    expected: list[int] = job_module("jobs", job_named(job)).expected(work)
    return expected
