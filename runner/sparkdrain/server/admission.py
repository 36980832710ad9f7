"""Which jobs run and which wait: first come, first served."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from sparkdrain.types import CancelToken


class Admission:
    """The jobs that are there, by id, in their order; the first of them run. Thread-safe.

    Args:
        limit: how many jobs run at a time, at least 1.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._jobs: list[str] = []
        self._changed = threading.Condition()

    def wait_for(self, job_id: str, cancel: CancelToken, on_wait: Callable[[int], object]) -> bool:
        """Wait until a job may run; call ``leave`` afterwards in every case.

        Args:
            job_id: the id of the job that waits.
            cancel: ends the wait.
            on_wait: hears how many jobs wait before the job, if the job has to wait.

        Returns:
            Whether the job may run; False if it was cancelled.
        """
        with self._changed:
            before = len(self._jobs) - self.limit
            self._jobs.append(job_id)
        if before >= 0:
            on_wait(before)
        cancel.on_cancel(self._wake)
        with self._changed:
            self._changed.wait_for(lambda: self.may_run(job_id) or cancel.is_cancelled())
        return not cancel.is_cancelled()

    def leave(self, job_id: str) -> None:
        """Let the next job run instead of this one, if this one ran."""
        with self._changed:
            if job_id in self._jobs:
                self._jobs.remove(job_id)
            self._changed.notify_all()

    def may_run(self, job_id: str) -> bool:
        """Whether a job is among those that run."""
        return job_id in self._jobs[: self.limit]

    def _wake(self) -> None:
        with self._changed:
            self._changed.notify_all()
