"""Lets in callers that know a key, and sends all others away after a few seconds."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Final

from sparkdrain.lines.line import ask_key

if TYPE_CHECKING:
    from sparkdrain.lines.encrypted import Certificate
    from sparkdrain.lines.line import Line

MEET_SECONDS: Final = 5.0
"""Seconds that a caller may take to show the key, however many bytes come meanwhile."""

MOST_STRANGERS: Final = 64
"""Callers that may be at the door at a time. If one more comes, the door sends the oldest away."""


class Door:
    """The place where a listener and a caller show each other that they know a key.

    A stranger who stays silent, or sends a byte now and then, is sent away in time. A crowd of
    strangers has no more than so many threads and open files. Thread-safe.

    Args:
        seconds: how long a caller may take.
        most: how many callers may be at the door at a time.
        certificate: if lines are encrypted.
    """

    def __init__(
        self,
        key: bytes,
        seconds: float = MEET_SECONDS,
        most: int = MOST_STRANGERS,
        certificate: Certificate | None = None,
    ) -> None:
        self._key = key
        self._certificate = certificate
        self._seconds = seconds
        self._most = most
        self._lock = threading.Lock()
        self._strangers: dict[Line, float] = {}
        self._is_watched = False

    def admits(self, line: Line) -> bool:
        """Whether the other end knows the key; it is told that this one does.

        Blocks, for as long as a caller may take at most: call it in a thread of its own.
        """
        with self._lock:
            crowd = len(self._strangers) >= self._most
            if crowd:
                self._shut(next(iter(self._strangers)))
            self._strangers[line] = time.monotonic() + self._seconds
        try:
            self._watch()
            if self._certificate is not None:
                line.encrypt(self._certificate, server=True)
            ask_key(line, self._key)
        except Exception:  # noqa: BLE001 - of strangers, all kinds of errors
            return False
        finally:
            with self._lock:
                was_there = self._strangers.pop(line, None) is not None
        return was_there

    def _watch(self) -> None:
        """Have one thread look after all deadlines. It ends when no caller is at the door.

        A timer for each line would cost a thread for each line, and tasks come in crowds.
        """
        with self._lock:
            if not self._is_watched:
                threading.Thread(target=self._send_away, name="door", daemon=True).start()
                self._is_watched = True

    def _send_away(self) -> None:
        pause = self._seconds
        while pause:
            time.sleep(pause)
            pause = self._until_next()

    def _until_next(self) -> float:
        """Send those away whose time is over; how long the next one has, 0 if there is none."""
        with self._lock:
            # The caller that came first has the first deadline.
            for line, deadline in list(self._strangers.items()):
                left = deadline - time.monotonic()
                if left > 0:
                    return left
                self._shut(line)
            self._is_watched = False
            return 0.0

    def _shut(self, line: Line) -> None:
        # Under the lock: no thread has closed it yet, so its descriptor is no other file's.
        del self._strangers[line]
        line.shut()
