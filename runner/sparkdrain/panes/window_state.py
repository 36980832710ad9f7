"""What is kept of one window of one key beside its values, and how it is written down."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sparkdrain.panes.trigger import Numbers

_HEAD = struct.Struct(">BIIqqqqHI")
_NOT_SET = -(1 << 63)
_FINISHED, _FRESH = 1, 2


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
