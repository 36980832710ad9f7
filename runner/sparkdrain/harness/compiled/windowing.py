"""Window assignment that remembers: elements close in time get the same windows."""

from __future__ import annotations

import copy
from typing import Any

from apache_beam.transforms.window import (
    FixedWindows,
    GlobalWindow,
    GlobalWindows,
    SlidingWindows,
    WindowedValue,
    WindowFn,
)
from apache_beam.utils.timestamp import Timestamp
from apache_beam.utils.windowed_value import create

_REMEMBERED = 4096
_GLOBAL = (GlobalWindow(),)


class WindowAssigner:
    """Gives an element's context with new windows (``beam:transform:window_into:v1``)."""

    def __init__(self, windowfn: Any) -> None:
        self._windowfn = windowfn
        self._step = _step(windowfn)
        self._windows: dict[int, Any] = {}
        self._micros: int | None = None
        self._context: Any = None

    @property
    def is_by_time(self) -> bool:
        """Whether an element's time, and how many windows it was in, decide alone."""
        return self._step is not None

    def __call__(self, context: Any, value: Any) -> Any:
        """The context of ``value`` in its new windows; its timestamp stays."""
        # An element in several windows counts once for each, also in its new ones.
        if self._step is None or len(context.windows) != 1:
            return self._assigned(context, value)
        micros = context.timestamp_micros
        if micros != self._micros:
            self._micros, self._context = micros, create(None, micros, self._windows_at(micros))
        return self._context

    def at(self, timestamp: Timestamp, value: Any) -> Any:
        """The context of ``value`` with a new timestamp and the windows of that time."""
        if self._step is None:
            windows = self._windowfn.assign(WindowFn.AssignContext(timestamp, value))
            return WindowedValue(None, timestamp, windows)
        # The context is asked: a Timestamp calculates its microseconds each time.
        context = WindowedValue(None, timestamp, _GLOBAL)
        micros = context.timestamp_micros
        if micros != self._micros:
            context.windows = self._windows_at(micros)
            self._micros, self._context = micros, context
        return self._context

    def _windows_at(self, micros: int) -> Any:
        """The windows of a time; only for window functions that look at nothing else."""
        assert self._step is not None
        period, offset = self._step
        if not period:
            return _GLOBAL
        number = (micros - offset) // period
        windows = self._windows.get(number)
        if windows is None:
            if len(self._windows) >= _REMEMBERED:
                self._windows.clear()
            asked = WindowFn.AssignContext(Timestamp(micros=micros), element=None)
            windows = tuple(self._windowfn.assign(asked))
            self._windows[number] = windows
        return windows

    def _assigned(self, context: Any, value: Any) -> Any:
        windows: list[Any] = []
        for window in context.windows:
            windows.extend(
                self._windowfn.assign(
                    WindowFn.AssignContext(context.timestamp, element=value, window=window)
                )
            )
        return WindowedValue(None, context.timestamp, tuple(windows))


def _step(windowfn: Any) -> tuple[int, int] | None:
    """Microseconds after which windows change, and the offset of that; None: unknown."""
    if type(windowfn) is GlobalWindows:
        return 0, 0
    if type(windowfn) is FixedWindows:
        return windowfn.size.micros, windowfn.offset.micros
    if type(windowfn) is SlidingWindows and windowfn.size.micros % windowfn.period.micros == 0:
        return windowfn.period.micros, windowfn.offset.micros
    return None


class Everywhere(GlobalWindows):
    """Assigns as Beam's does, which works out the end of time each time it is asked.

    That is most of what a DoFn's ``TimestampedValue`` costs.
    """

    def assign(self, assign_context: Any) -> Any:
        """The global window."""
        return _GLOBAL


def with_one_global_window(windowing: Any) -> Any:
    """``windowing``, with ``Everywhere`` if its elements are in the global window."""
    if type(windowing.windowfn) is not GlobalWindows:
        return windowing
    windowing = copy.copy(windowing)
    windowing.windowfn = Everywhere()
    return windowing
