"""Which samples of elements become messages of the job: some at once, then fewer and fewer."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Final

from apache_beam.portability.api import beam_job_api_pb2

if TYPE_CHECKING:
    from collections.abc import Callable

_BASIC: Final = beam_job_api_pb2.JobMessage.JOB_MESSAGE_BASIC
_AT_ONCE: Final = 3
_SOONEST_SECONDS: Final = 10.0
_LATEST_SECONDS: Final = 3600.0


class SampleMessages:
    """Tells samples of all slots: three of each step, then one each 10 s, 20 s, ... up to an hour.

    A job keeps its newest thousand messages, and samples must not drive the others out.

    Args:
        tell: takes the importance and the text of a message.
        now: a clock, seconds.
    """

    def __init__(
        self, tell: Callable[[int, str], object], now: Callable[[], float] = time.monotonic
    ) -> None:
        self._tell = tell
        self._now = now
        self._lock = threading.Lock()
        # By step: how many were told, when the next one may be, and how long after that the next.
        self._told: dict[str, tuple[int, float, float]] = {}

    def __call__(self, of: str, text: str) -> None:
        """Take a sample of the elements that a step has made; from any thread."""
        with self._lock:
            now = self._now()
            count, due, wait = self._told.get(of, (0, now, _SOONEST_SECONDS))
            if count >= _AT_ONCE and now < due:
                return
            if count >= _AT_ONCE - 1:
                due, wait = now + wait, min(2 * wait, _LATEST_SECONDS)
            self._told[of] = count + 1, due, wait
        self._tell(_BASIC, f"Sample of {of}: {text}")
