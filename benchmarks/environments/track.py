"""One environment on one runner: a warm session, the job that it is at, and what came out."""

from __future__ import annotations

import os
import shutil
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Final

from benchmarks.child import Measured, Session, SessionFailed
from benchmarks.jobs import job_module
from benchmarks.jobs.work import Work
from benchmarks.plan import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.environments.ways import Way
    from benchmarks.jobs import Job
    from benchmarks.plan import Kit

_SMALL: Final = 0.1


@dataclass(slots=True)
class Found:
    """What a job took in an environment.

    Attributes:
        job: its name.
        way: the environment.
        n: elements of the large runs.
        small: elements of the small runs.
        runs: the large ones.
        small_runs: the small ones.
        problem: why there is no figure; "" where there is one.
    """

    job: str
    way: Way
    n: int
    small: int
    runs: list[Measured] = field(default_factory=list)
    small_runs: list[Measured] = field(default_factory=list)
    problem: str = ""

    @property
    def load(self) -> float:
        """Of the machine, the highest."""
        return max((run.load for run in self.runs), default=0.0)

    @property
    def seconds(self) -> float | None:
        """Of a large run, median."""
        return None if self.problem else median(run.seconds for run in self.runs)

    @property
    def rate(self) -> float | None:
        """Elements per second of a large run, median."""
        return self.n / self.seconds if self.seconds else None

    @property
    def micros(self) -> float | None:
        """Microseconds for each element beyond those of a small run."""
        return self._further(lambda run: run.seconds)

    @property
    def cpu_micros(self) -> float | None:
        """The same of CPU time, of all processes together."""
        return self._further(lambda run: run.cpu)

    def _further(self, figure: Callable[[Measured], float]) -> float | None:
        if self.problem:
            return None
        large, small = (median(map(figure, runs)) for runs in (self.runs, self.small_runs))
        return max(large - small, 0.0) / (self.n - self.small) * 1e6


class Track:
    """A failure ends the track, never the benchmark; later calls do nothing then."""

    def __init__(self, way: Way, kit: Kit, programs: Path, limit: float, rest: float) -> None:
        self.way = way
        self._rest = rest
        self._kit = kit
        self._programs = programs
        self._limit = limit
        self._session: Session | None = None
        self._missing = f"MISSING: {kit.missing}" if kit.missing else ""
        self._job: Job | None = None
        self._n = self._small = 0
        self._found: Found | None = None
        self._is_warm = False

    def open(self) -> None:
        """Starts the session."""
        if self._missing:
            return
        python = str(self._kit.python or sys.executable)
        command = [python, "-m", "benchmarks.environments.session", f"--way={self.way.name}"]
        command += [f"--programs={self._programs}"]
        command += [f"--jars={self._kit.jars}"] if self._kit.jars else []
        paths = [str(ROOT)]
        if self._kit.python is None:
            paths += [str(ROOT / "runner"), os.environ.get("PYTHONPATH", "")]
        self._session = Session(command, {"PYTHONPATH": os.pathsep.join(filter(None, paths))})
        try:
            self._session.wait_ready(self._limit)
        except SessionFailed as error:
            self._fail(str(error))

    def begin(self, job: Job, share: float) -> None:
        """Turns to a job. A session that has failed is started anew; a new one is warmed up."""
        self._job = job
        self._n = max(1, round(job.size * share))
        self._small = max(1, round(self._n * _SMALL))
        self._found = Found(job.name, self.way, self._n, self._small, problem=self._missing)
        if self._session is None:
            self.open()
        if not self._is_warm:
            self._is_warm = self._order(self._small) is not None

    def run(self) -> None:
        """A small run and a large one."""
        assert self._found is not None
        small, large = self._order(self._small), self._order(self._n)
        if small is not None and large is not None:
            self._found.small_runs.append(small)
            self._found.runs.append(large)

    def found(self) -> Found:
        """What came out for the job."""
        assert self._found is not None
        return self._found

    def close(self) -> None:
        """Ends the session."""
        if self._session is not None:
            self._session.close()
            self._session = None
            self._is_warm = False

    def _order(self, n: int) -> Measured | None:
        assert self._job is not None
        assert self._found is not None
        if self._session is None or self._found.problem:
            return None
        out = self._session.directory / f"out-{time.time_ns()}"
        out.mkdir()
        work = Work(n, self._job.keys_for(n), Path(), out)
        time.sleep(self._rest)
        try:
            measured = self._session.run(work, self._limit, self._job.name)
        except SessionFailed as error:
            self._fail(str(error))
            return None
        shutil.rmtree(out, ignore_errors=True)
        expected = job_module("jobs", self._job).expected(work)
        if measured.result != expected:
            self._fail(f"WRONG RESULT: {measured.result}, expected {expected}")
            return None
        return measured

    def _fail(self, reason: str) -> None:
        if self._found is None:
            self._missing = f"FAILED: {reason}"
        else:
            self._found.problem = reason
        self.close()
