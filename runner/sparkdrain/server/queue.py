"""Which jobs run and which wait: first come, first served."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from sparkdrain.types import CancelToken


class Queue:
    """The jobs that run and the jobs that wait, by id. Pure, and not thread-safe.

    Args:
        limit: how many jobs run at a time, at least 1.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._running: set[str] = set()
        self._waiting: list[str] = []

    def enter(self, job_id: str) -> int | None:
        """Let a job run, or wait behind all others.

        Returns:
            How many jobs wait before the job; None if the job may run.
        """
        if len(self._running) < self.limit:
            self._running.add(job_id)
            return None
        self._waiting.append(job_id)
        return len(self._waiting) - 1

    def leave(self, job_id: str) -> None:
        """Take a job out, wherever the job is; the first of those that wait may run instead."""
        self._running.discard(job_id)
        if job_id in self._waiting:
            self._waiting.remove(job_id)
        while self._waiting and len(self._running) < self.limit:
            self._running.add(self._waiting.pop(0))

    def may_run(self, job_id: str) -> bool:
        """Whether a job is among those that run."""
        return job_id in self._running


class Admission:
    """A ``Queue`` in which the threads of jobs wait. Thread-safe."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._queue = Queue(limit)
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
            before = self._queue.enter(job_id)
        if before is not None:
            on_wait(before)
        cancel.on_cancel(self._wake)
        with self._changed:
            self._changed.wait_for(lambda: self._queue.may_run(job_id) or cancel.is_cancelled())
        return not cancel.is_cancelled()

    def leave(self, job_id: str) -> None:
        """Let the next job run instead of this one, if this one ran."""
        with self._changed:
            self._queue.leave(job_id)
            self._changed.notify_all()

    def _wake(self) -> None:
        with self._changed:
            self._changed.notify_all()
