"""The jobs that a service knows."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from sparkdrain.errors import SparkDrainError

if TYPE_CHECKING:
    from sparkdrain.jobs.job import Job


class NoSuchJob(SparkDrainError):
    """No job of that id is known here, or it was so long ago that it was forgotten."""


class Registry:
    """Jobs by id. Running ones are always kept; of the others, the newest ``kept``. Thread-safe."""

    def __init__(self, kept: int) -> None:
        self._kept = kept
        self._lock = threading.Lock()
        self._jobs: dict[str, Job] = {}

    def add(self, job: Job) -> list[Job]:
        """Remember a job; returns those that were forgotten for it."""
        with self._lock:
            self._jobs[job.submission.job_id] = job
            idle = [known for known in self._jobs.values() if not known.is_running]
            forgotten = idle[: max(0, len(idle) - self._kept)]
            for old in forgotten:
                del self._jobs[old.submission.job_id]
            return forgotten

    def get(self, job_id: str) -> Job:
        """The job of that id.

        Raises:
            NoSuchJob: it is not known (any more).
        """
        with self._lock:
            job = self._jobs.get(job_id)
        if job is None:
            message = (
                f"There is no job {job_id!r} here: it was never prepared, this service was started "
                f"after it, or more than {self._kept} jobs came after it."
            )
            raise NoSuchJob(message)
        return job

    def all(self) -> list[Job]:
        """Every known job, oldest first."""
        with self._lock:
            return list(self._jobs.values())
