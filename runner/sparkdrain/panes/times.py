"""Times as panes use them: whole microseconds since the epoch, never past the end of time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from apache_beam.utils.timestamp import MAX_TIMESTAMP, MIN_TIMESTAMP, Timestamp

BEGIN: Final[int] = MIN_TIMESTAMP.micros
END: Final[int] = MAX_TIMESTAMP.micros


def whole_millis(time: int) -> int:
    """The last whole millisecond at or before ``time``; the ends of time stay as they are."""
    return time if time in (BEGIN, END) else time - time % 1000


def timestamp(time: int) -> Timestamp:
    """Beam's object for ``time``."""
    return Timestamp(micros=time)


@dataclass(frozen=True, slots=True)
class WindowTimes:
    """When a window is over: a frontier at or above ``end`` says that all on time was seen.

    At or above ``expiry`` late elements are no longer taken, and its state goes.
    """

    end: int
    expiry: int

    @staticmethod
    def of(window: Any, lateness: int) -> WindowTimes:
        """The times of ``window`` where elements may be ``lateness`` microseconds late."""
        end = min(window.max_timestamp().micros + 1, END)
        return WindowTimes(end, min(end + lateness, END))

    @property
    def last(self) -> int:
        """The window's last moment, in whole milliseconds: where its panes stand if nowhere else.

        Elements that come through a shuffle have their times in milliseconds.
        """
        return whole_millis(self.end - 1)
