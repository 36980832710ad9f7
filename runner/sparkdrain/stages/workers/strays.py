"""Ends the daemons that user code of a batch job has started, when the job ends.

A worker outlives its job, and so does Spark's Python daemon, which adopts orphans. Whose orphan a
process is, its environment tells: what user code starts inherits the worker's.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

from sparkdrain.hosts.orphans import JOB_VARIABLE, children_of, end_orphans_of_job, is_of_job
from sparkdrain.stages.telling.job_over import when_over

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sparkdrain.lines.line import Endpoint


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
