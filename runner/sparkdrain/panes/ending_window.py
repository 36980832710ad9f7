"""A window whose panes wait for its end."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from apache_beam.transforms.window import WindowedValue
from apache_beam.utils.windowed_value import PaneInfo, PaneInfoTiming

from sparkdrain.panes.times import WindowTimes
from sparkdrain.shuffle.group_by_key import in_millis

# A late pane of a key has the next number; a window that takes late elements for days has many.
_PANES_REMEMBERED = 16


class EndingWindow:
    """When it fires, and what goes with its panes.

    Args:
        section: the window, encoded.
        lateness: what is allowed, in microseconds.
        at_expiry: whether its only pane comes when it expires.
    """

    def __init__(self, section: bytes, window: Any, lateness: int, at_expiry: bool) -> None:
        self.section = section
        self.times = WindowTimes(window, lateness)
        self.fires = self.times.expiry if at_expiry else self.times.end
        self._window = window
        self.context = lru_cache(_PANES_REMEMBERED)(self._context)
        """What goes with a pane: the same object for the same pane of every key."""

    def _context(self, index: int, *, on_time: bool, last: bool) -> Any:
        timing = PaneInfoTiming.ON_TIME if on_time else PaneInfoTiming.LATE
        info = PaneInfo(index == 0, last, timing, index, index)
        end = in_millis(self._window.max_timestamp())
        return WindowedValue(None, end, (self._window,), info)
