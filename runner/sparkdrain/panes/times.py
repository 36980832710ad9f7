"""Times as panes use them: whole microseconds since the epoch, never past the end of time."""

from __future__ import annotations

from typing import Any, Final

from apache_beam.transforms.window import GlobalWindow, IntervalWindow
from apache_beam.utils.timestamp import MAX_TIMESTAMP, MIN_TIMESTAMP, Timestamp

BEGIN: Final[int] = MIN_TIMESTAMP.micros
END: Final[int] = MAX_TIMESTAMP.micros

# Their last moment is a microsecond before their end; asking them takes longer.
_ENDING = (IntervalWindow, GlobalWindow)


def whole_millis(time: int) -> int:
    """The last whole millisecond at or before ``time``; the ends of time stay as they are."""
    return time if time in (BEGIN, END) else time - time % 1000


def timestamp(time: int) -> Timestamp:
    """Beam's object for ``time``."""
    return Timestamp(micros=time)


class WindowTimes:
    """When a window is over: a frontier at or above ``end`` says that all on time was seen.

    At or above ``expiry`` late elements are no longer taken, and its state goes.

    Args:
        window: Beam's.
        lateness: how late elements may be, in microseconds.
    """

    __slots__ = ("end", "expiry")

    def __init__(self, window: Any, lateness: int) -> None:
        kind = type(window)
        end = window.end.micros if kind in _ENDING else window.max_timestamp().micros + 1
        self.end: int = min(end, END)
        self.expiry: int = min(self.end + lateness, END)
