"""How log records and samples of SDK harnesses reach the job's messages.

Best effort, never in a slot's way: a worker sends ``[level u8][text]`` on a connection of its own,
and drops what comes too fast. The level of a sample is 0, and its text begins with the name of the
step and a line's end.
"""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from typing import TYPE_CHECKING, Final

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
