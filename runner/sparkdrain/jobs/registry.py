"""The jobs that a service knows."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Generic, TypeVar

from sparkdrain.errors import SparkDrainError

if TYPE_CHECKING:
    from sparkdrain.jobs.served import ServedJob


class NoSuchJob(SparkDrainError):
    """No job of that id is known here, or it was so long ago that it was forgotten."""


J = TypeVar("J", bound="ServedJob")


class Registry(Generic[J]):
    """Jobs by id. Running ones are always kept; of the others, the newest ``kept``. Thread-safe."""

    def __init__(self, kept: int) -> None:
        self._kept = kept
        self._lock = threading.Lock()
        self._jobs: dict[str, J] = {}

    def add(self, job_id: str, job: J) -> dict[str, J]:
        """Remember a job; returns those that were forgotten for it, by id."""
        with self._lock:
            self._jobs[job_id] = job
            idle = [known for known, each in self._jobs.items() if not each.is_running]
            return {old: self._jobs.pop(old) for old in idle[: max(0, len(idle) - self._kept)]}

    def replace(self, job_id: str, job: J) -> None:
        """Have another object stand for a known job."""
        with self._lock:
            if job_id in self._jobs:
                self._jobs[job_id] = job

    def remove(self, job_id: str) -> None:
        """Forget a job."""
        with self._lock:
            self._jobs.pop(job_id, None)

    def get(self, job_id: str) -> J:
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

    def all(self) -> list[J]:
        """Every known job, oldest first."""
        with self._lock:
            return list(self._jobs.values())
