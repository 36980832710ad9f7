"""Which elements wait for which windows of side inputs.

A door is a combination of windows, one of each side input of a transform: what the windows of a
main element are mapped to. Elements wait before a door, in their order, until it opens.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from apache_beam.transforms.window import GlobalWindow, GlobalWindows

from sparkdrain.panes.times import end_of
from sparkdrain.watermarks.frontier import BEGIN, END

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sparkdrain.rounds.sides.stream import SideStream

_SIZE = struct.Struct(">I")
_REMEMBERED = 10_000


@dataclass(frozen=True, slots=True)
class View:
    """One side input as a transform sees it.

    Attributes:
        mapping: from a window of the main input to one of the side input.
    """

    stream: SideStream
    windowing: Any
    mapping: Callable[[Any], Any]

    @property
    def is_global(self) -> bool:
        """Whether there is one window only."""
        return bool(self.windowing.windowfn == GlobalWindows())

    @property
    def follows_time(self) -> bool:
        """Whether a main window is mapped to the one in which it ends, as Beam does it."""
        name = getattr(self.mapping, "__qualname__", "")
        return name == "default_window_mapping_fn.<locals>.map_via_end"


class Doors:
    """The doors in front of one transform.

    Args:
        lateness: how late its main input may be, in microseconds.
    """

    def __init__(self, views: Sequence[View], lateness: int) -> None:
        self._views = views
        self._lateness = lateness
        self._encode = [view.stream.window_coder.get_impl().encode for view in views]
        # Windows of side inputs that time leaves behind are dropped, with what comes for them.
        self._expires = any(view.follows_time and not view.is_global for view in views)
        self._doors: dict[Any, bytes] = {}
        self.only: bytes | None = None
        """The one door that there is, if all side inputs are global."""
        if all(view.is_global for view in views):
            self.only = self._door(GlobalWindow())
        for view in views:
            view.stream.keeps = self._kept(view)

    def _kept(self, view: View) -> int | None:
        known = view.stream.keeps
        if known is None or view.is_global or not view.follows_time:
            return None
        return max(known, self._lateness)

    def _door(self, window: Any) -> bytes:
        parts = []
        for view, encode in zip(self._views, self._encode, strict=True):
            side = encode(view.mapping(window))
            parts += [_SIZE.pack(len(side)), side]
        return b"".join(parts)

    def of(self, window: Any) -> bytes:
        """The door in front of a window of the main input."""
        if self.only is not None:
            return self.only
        door = self._doors.get(window)
        if door is None:
            if len(self._doors) >= _REMEMBERED:
                self._doors = {}
            door = self._doors[window] = self._door(window)
        return door

    def split(self, windows: Sequence[Any], frontier: int) -> dict[bytes | None, list[Any]]:
        """Some windows by their doors; None for those whose elements are too late.

        Args:
            windows: those that a main element is in.
            frontier: what was passed before the element came.
        """
        doors: dict[bytes | None, list[Any]] = {}
        for window in windows:
            door = None if self._is_over(window, frontier) else self.of(window)
            doors.setdefault(door, []).append(window)
        return doors

    def _is_over(self, window: Any, frontier: int) -> bool:
        if not self._expires or frontier == BEGIN:
            return False
        return min(end_of(window) + self._lateness, END) <= frontier

    def is_open(self, door: bytes) -> bool:
        """Whether all of its windows are ready."""
        position = 0
        for view in self._views:
            (size,) = _SIZE.unpack_from(door, position)
            position += _SIZE.size
            if not view.stream.is_ready(door[position : position + size]):
                return False
            position += size
        return True
