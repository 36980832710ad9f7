"""Which names jobs hold: two jobs that go on must not have one name."""

from __future__ import annotations

import threading
from typing import Final

from sparkdrain.errors import NameTaken

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
