"""What a Python worker keeps between tasks; the only module with state of its own.

When a batch job ends, the daemons that its user code has started end too. A worker outlives its
job, and so does Spark's Python daemon, which adopts orphans. Whose orphan a process is, its
environment tells: what user code starts inherits the worker's.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING

from sparkdrain.garbage import calm_collector
from sparkdrain.graph.plan import Plan
from sparkdrain.hosts.orphans import JOB_VARIABLE, children_of, end_orphans_of_job, is_of_job
from sparkdrain.side_inputs.file import SideFile
from sparkdrain.stages.telling.job_over import when_over
from sparkdrain.stages.telling.report import forget_warnings
from sparkdrain.stages.workers.preparation import Preparation, go_to, prepare

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from sparkdrain.lines.line import Endpoint

_PLANS_KEPT = 2
_FILES_KEPT = 64


class Worker:
    """Plans and side input files that this process has opened.

    Attributes:
        strays: see ``Strays``.
    """

    def __init__(self) -> None:
        self.strays = Strays()
        self._plans: dict[str, Plan] = {}
        self._files: dict[Path, SideFile] = {}
        self._prepared: Preparation | None = None
        calm_collector()

    def prepare(self, preparation: Preparation) -> None:
        """Prepare this process for a job, if that was not the last thing it was prepared for.

        Raises:
            BadSetup: it cannot be used for the job.
        """
        # For each task anew: user code of the one before may have gone elsewhere.
        go_to(preparation.directory)
        if preparation != self._prepared:
            self._prepared = None
            prepare(preparation)
            self._prepared = preparation

    def plan(self, job: str, file: Path | bytes) -> Plan:
        """The plan of ``job``, read from its file, or the file's content, at first use."""
        if job not in self._plans:
            forget_warnings()
            content = file if isinstance(file, bytes) else file.read_bytes()
            _make_room(self._plans, _PLANS_KEPT)
            self._plans[job] = Plan.decode(content)
        return self._plans[job]

    def side_file(self, file: Path | bytes) -> SideFile:
        """A side input file, mapped at first use, or what is its content already."""
        if isinstance(file, bytes):
            return SideFile(file)
        if file not in self._files:
            _make_room(self._files, _FILES_KEPT)
            self._files[file] = SideFile.at(file)
        return self._files[file]


class Strays:
    """The daemons of one worker."""

    def __init__(self) -> None:
        self._awaited: set[str] = set()

    @contextmanager
    def of(self, job: str, over: Endpoint) -> Iterator[None]:
        """Run user code of a job in this; what it leaves behind ends when the job does.

        Args:
            job: its id.
            over: who tells that it is over.
        """
        os.environ[JOB_VARIABLE] = job
        try:
            yield
        finally:
            os.environ.pop(JOB_VARIABLE, None)
            if job not in self._awaited and _may_have_some(job):
                self._awaited.add(job)
                when_over(over, lambda: self._end(job))

    def _end(self, job: str) -> None:
        end_orphans_of_job(os.getppid(), job)
        self._awaited.discard(job)


def _may_have_some(job: str) -> bool:
    """Whether this worker has children, or the daemon has adopted orphans of the job."""
    if children_of(os.getpid()):
        return True
    return any(is_of_job(child, job) is not False for child in children_of(os.getppid()))


def _make_room(kept: dict, limit: int) -> None:  # type: ignore[type-arg]
    while len(kept) >= limit:
        del kept[next(iter(kept))]


@cache
def worker() -> Worker:
    """This process's worker, made by the first task."""
    return Worker()
