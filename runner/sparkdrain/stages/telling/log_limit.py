"""Which log records of a slot become messages of a streaming job: so many a minute."""

from __future__ import annotations

import logging
import math
import threading
import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

_SECONDS: Final = 60.0
# A job keeps its newest thousand messages.
_OF_A_JOB: Final = 300
_OF_A_SLOT: Final = 10


class LogLimit:
    """Lets so many log records of a slot pass in a minute. Thread-safe.

    Warnings and errors are counted apart from the other records, so that these cannot displace
    them. Of each kind, the first record too many of a minute gives way to a note.

    Args:
        most: how many records of each kind pass in a minute.
        now: a clock, seconds.
    """

    def __init__(self, most: int, now: Callable[[], float] = time.monotonic) -> None:
        self._most = most
        self._now = now
        self._lock = threading.Lock()
        self._over = -math.inf
        self._counts = {True: 0, False: 0}

    @staticmethod
    def of(slots: int) -> LogLimit:
        """The limit of each slot, if a job has so many."""
        return LogLimit(max(_OF_A_SLOT, _OF_A_JOB // slots))

    def __call__(self, level: int, text: str) -> tuple[int, str] | None:
        """What to tell of a record: itself, a note that it and the next are cut, or nothing."""
        warns = level >= logging.WARNING
        with self._lock:
            now = self._now()
            if now >= self._over:
                self._over = now + _SECONDS
                self._counts = {True: 0, False: 0}
            self._counts[warns] += 1
            count = self._counts[warns]
        if count <= self._most:
            return level, text
        return (logging.WARNING, self._note(warns=warns)) if count == self._most + 1 else None

    def _note(self, *, warns: bool) -> str:
        kind = "warnings and errors" if warns else "log records below WARNING"
        return (
            f"An SDK harness has logged more than {self._most} {kind} within a minute. The next "
            "ones are left out of the job's messages until the minute is over. The log of the "
            "executor has them."
        )
