"""How log records and samples of SDK harnesses reach the job's messages.

Best effort, never in a slot's way: a worker sends ``[level u8][text]`` on a connection of its own,
and drops what comes too fast. The level of a sample is 0, and its text begins with the name of the
step and a line's end.
"""

from __future__ import annotations

import contextlib
import logging
import math
import queue
import threading
import time
from typing import TYPE_CHECKING, Final

from apache_beam.portability.api import beam_job_api_pb2

from sparkdrain.lines.server import Server

if TYPE_CHECKING:
    from collections.abc import Callable

    from sparkdrain.lines.line import Endpoint, Line
    from sparkdrain.lines.server import Bind

_WAITING: Final = 1000
_IDLE_SECONDS: Final = 20.0
_DIAL_SECONDS: Final = 5.0
_FLUSH_SECONDS: Final = 1.0
_LOOK_SECONDS: Final = 0.005
_LONGEST: Final = 10_000
_SAMPLE: Final = 0
_SECONDS: Final = 60.0
# A job keeps its newest thousand messages.
_OF_A_JOB: Final = 300
_OF_A_SLOT: Final = 10
_BASIC: Final = beam_job_api_pb2.JobMessage.JOB_MESSAGE_BASIC
_AT_ONCE: Final = 3
_SOONEST_SECONDS: Final = 10.0
_LATEST_SECONDS: Final = 3600.0


def log_server(
    bind: Bind,
    tell: Callable[[int, str], object],
    sample: Callable[[str, str], object] = lambda _of, _text: None,
) -> Server:
    """The driver's side, for all workers of a job.

    Args:
        bind: where to listen.
        tell: takes the level of ``logging`` and the text of each record.
        sample: takes the name of a step, and an element that the step has made.

    Raises:
        OSError: nothing can listen there.
    """

    def serve(line: Line) -> None:
        while True:
            record = line.recv_bytes()
            text = record[1:].decode()
            if record[0] == _SAMPLE:
                of, _, element = text.partition("\n")
                sample(of, element)
            else:
                tell(record[0], text)

    return Server(bind, "logs", serve)


class LogSender:
    """A worker's side. Thread-safe. Without a record it has neither a thread nor a connection.

    Args:
        driver: the other side.
        limit: takes the level and the text of each log record, and gives what is sent in its
            place; None if nothing is.
    """

    def __init__(
        self,
        driver: Endpoint,
        limit: Callable[[int, str], tuple[int, str] | None] = lambda level, text: (level, text),
    ) -> None:
        self._driver = driver
        self._limit = limit
        self._records: queue.Queue[bytes] = queue.Queue(_WAITING)
        self._lock = threading.Lock()
        self._is_sending = False
        self._dropped = 0
        self._taken = self._sent = 0

    def sample(self, of: str, text: str) -> None:
        """Send a sample of the elements that a step has made."""
        self._put(_SAMPLE, f"{of}\n{text}")

    def __call__(self, level: int, text: str) -> None:
        """Send a record; returns at once, and never fails."""
        sent = self._limit(level, text)
        if sent is not None:
            self._put(*sent)

    def _put(self, level: int, text: str) -> None:
        data = text[:_LONGEST].encode("utf-8", "backslashreplace")
        with self._lock:
            try:
                self._records.put_nowait(bytes([min(level, 255)]) + data)
                self._taken += 1
            except queue.Full:
                self._dropped += 1
            if not self._is_sending:
                self._is_sending = True
                threading.Thread(target=self._send, name="sparkdrain-logs", daemon=True).start()

    def flush(self) -> None:
        """Wait until all that was taken is sent, or cannot be, but no longer than a second."""
        until = time.monotonic() + _FLUSH_SECONDS
        while self._is_sending and self._sent < self._taken and time.monotonic() < until:
            time.sleep(_LOOK_SECONDS)

    def _send(self) -> None:
        # Without a driver there is no job.
        with contextlib.suppress(OSError, EOFError), self._driver.dial(_DIAL_SECONDS) as line:
            while (record := self._next()) is not None:
                line.send_bytes(record)
                self._sent += 1
            return
        with self._lock:
            self._is_sending = False

    def _next(self) -> bytes | None:
        """The next record; None if there was none for long, and this thread is to end."""
        with self._lock:
            dropped, self._dropped = self._dropped, 0
        if dropped:
            return b"\x1e" + f"{dropped} log records were left out: too many came.".encode()
        with contextlib.suppress(queue.Empty):
            return self._records.get(timeout=_IDLE_SECONDS)
        with self._lock:
            self._is_sending = not self._records.empty()
            return self._records.get_nowait() if self._is_sending else None


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
