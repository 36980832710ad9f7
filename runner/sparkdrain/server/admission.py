"""Which jobs of a server run, which wait, and which names they hold."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final

from sparkdrain.errors import NameTaken

if TYPE_CHECKING:
    from collections.abc import Callable

    from sparkdrain.types import CancelToken

UNNAMED: Final = frozenset({"", "job"})
"""What SDKs send for a job without a name of its own; any number of jobs may have these."""


class Names:
    """The names of jobs that wait or run. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._holders: dict[str, str] = {}

    def check(self, name: str) -> None:
        """Return if no job holds the name.

        Raises:
            NameTaken: names the job that does.
        """
        if (holder := self._holders.get(name)) is not None:
            message = (
                f"The job name {name!r} is in use by the job {holder}, which has not ended. Give "
                "this job another --job_name, or cancel or drain the other job first."
            )
            raise NameTaken(message)

    def claim(self, name: str, job_id: str) -> None:
        """Have a job hold a name until ``release``.

        Raises:
            NameTaken: see ``check``.
        """
        with self._lock:
            self.check(name)
            if name not in UNNAMED:
                self._holders[name] = job_id

    def release(self, name: str, job_id: str) -> None:
        """Let other jobs have the name; does nothing if the job does not hold it."""
        with self._lock:
            if self._holders.get(name) == job_id:
                del self._holders[name]


class Admission:
    """The jobs that are there, by id, in their order; the first that came run. Thread-safe.

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
