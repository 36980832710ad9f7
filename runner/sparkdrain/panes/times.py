"""Times as panes use them: whole microseconds since the epoch, never past the end of time."""

from __future__ import annotations

from typing import Any, Final

from apache_beam.transforms.window import GlobalWindow, IntervalWindow
from apache_beam.utils.timestamp import MAX_TIMESTAMP, MIN_TIMESTAMP

BEGIN: Final[int] = MIN_TIMESTAMP.micros
END: Final[int] = MAX_TIMESTAMP.micros

# The last moment of Java's global window is a whole millisecond, at which Python's ends.
_GLOBAL_LAST: Final[int] = GlobalWindow().max_timestamp().micros
_GLOBAL_END: Final[int] = _GLOBAL_LAST + 1 + 1000


def whole_millis(time: int) -> int:
    """The last whole millisecond at or before ``time``; the ends of time stay as they are."""
    return time if time in (BEGIN, END) else time - time % 1000


def end_of(window: Any) -> int:
    """The first moment behind a window: from there on, no element of any SDK is in it."""
    kind = type(window)
    if kind is GlobalWindow:
        return _GLOBAL_END
    # The last moment of an interval is a microsecond before its end; asking it takes longer.
    end = window.end.micros if kind is IntervalWindow else window.max_timestamp().micros + 1
    return min(end, END)


class WindowTimes:
    """When a window is over: a frontier at or above ``end`` says that all on time was seen.

    At or above ``expiry`` late elements are no longer taken, and its state goes. ``last`` is the
    time of a pane of which no element says another.

    Args:
        window: Beam's.
        lateness: how late elements may be, in microseconds.
    """

    __slots__ = ("end", "expiry", "last")

    def __init__(self, window: Any, lateness: int) -> None:
        self.end: int = end_of(window)
        self.last: int = _GLOBAL_LAST if type(window) is GlobalWindow else self.end - 1
        self.expiry: int = min(self.end + lateness, END)
