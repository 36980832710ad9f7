"""What is kept of the windows of a key beside their values, and where it is."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sparkdrain.panes.trigger import Numbers
    from timers_state import KeyScope

_HEAD = struct.Struct(">BIIqqqqHI")
_NOT_SET = -(1 << 63)
_FINISHED, _FRESH = 1, 2
_STATE = b"w"
_SIZES = struct.Struct(">II")


@dataclass(slots=True)
class WindowState:
    """A window of a key. Times are microseconds."""

    numbers: Numbers
    """What the trigger remembers."""
    bags: list[int] = field(default_factory=list)
    """Where its values are, in order; of merging windows only."""
    finished: bool = False
    """Whether its trigger has finished, so that nothing is taken until the window expires."""
    fresh: bool = False
    """Something came since the last pane."""
    panes: int = 0
    """Panes so far."""
    panes_on_time: int = 0
    """Panes so far at or after the end of the window."""
    hold: int | None = None
    """The timestamp of the next pane, as far as elements say."""
    event: int | None = None
    """When its timer in event time fires."""
    wake: int | None = None
    """When its timer in processing time fires."""
    held: int | None = None
    """Where its timer stands that holds the watermark back."""

    def encode(self) -> bytes:
        """The bytes to keep."""
        return _HEAD.pack(
            self.finished * _FINISHED | self.fresh * _FRESH,
            self.panes,
            self.panes_on_time,
            *(_NOT_SET if t is None else t for t in (self.hold, self.event, self.wake, self.held)),
            len(self.numbers),
            len(self.bags),
        ) + struct.pack(f">{len(self.numbers)}q{len(self.bags)}I", *self.numbers, *self.bags)

    @staticmethod
    def decode(data: bytes) -> WindowState:
        """The state in bytes of ``encode``."""
        flags, panes, on_time, hold, event, wake, held, numbers, bags = _HEAD.unpack_from(data)
        both = struct.unpack_from(f">{numbers}q{bags}I", data, _HEAD.size)
        return WindowState(
            list(both[:numbers]),
            list(both[numbers:]),
            bool(flags & _FINISHED),
            bool(flags & _FRESH),
            panes,
            on_time,
            *(None if time == _NOT_SET else time for time in (hold, event, wake, held)),
        )


class SeparateStates:
    """States of windows that know nothing of each other: a value for each."""

    def __init__(self, scope: KeyScope) -> None:
        self._scope = scope

    def get(self, window: bytes) -> bytes | None:
        """The state of an encoded window, None if it has none."""
        return self._scope.value(_STATE, window).get()

    def put(self, window: bytes, state: bytes) -> None:
        """Keep the state of a window."""
        self._scope.value(_STATE, window).set(state)

    def remove(self, window: bytes) -> None:
        """The window has no state anymore."""
        self._scope.value(_STATE, window).clear()

    def flush(self) -> None:
        """All is written down already."""


class StatesTogether:
    """States of windows that may merge, so that all are looked at anyway: one value for all."""

    def __init__(self, scope: KeyScope) -> None:
        self._value = scope.value(_STATE)
        self._states = _decode(self._value.get() or b"")
        self._changed = False

    def get(self, window: bytes) -> bytes | None:
        """The state of an encoded window, None if it has none."""
        return self._states.get(window)

    def put(self, window: bytes, state: bytes) -> None:
        """Keep the state of a window."""
        self._states[window] = state
        self._changed = True

    def remove(self, window: bytes) -> None:
        """The window has no state anymore."""
        self._changed |= self._states.pop(window, None) is not None

    def windows(self) -> list[bytes]:
        """All windows that have a state."""
        return list(self._states)

    def flush(self) -> None:
        """Write down what was changed."""
        if not self._changed:
            return
        if self._states:
            self._value.set(_encode(self._states))
        else:
            self._value.clear()


def _encode(states: dict[bytes, bytes]) -> bytes:
    parts: list[bytes] = []
    for window, state in states.items():
        parts += (_SIZES.pack(len(window), len(state)), window, state)
    return b"".join(parts)


def _decode(data: bytes) -> dict[bytes, bytes]:
    states = {}
    at = 0
    while at < len(data):
        window_size, state_size = _SIZES.unpack_from(data, at)
        at += _SIZES.size
        window = data[at : at + window_size]
        at += window_size
        states[window] = data[at : at + state_size]
        at += state_size
    return states
