"""What a key held before the running round changed it, as far as the store has not got it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from timers_state.cells import Value
    from timers_state.keys import Domain
    from timers_state.timer_rows import Changes

IMAGE_BYTES: Final = 640
"""What an image costs in memory, but for values, and timers beyond the first."""

ValueImage = tuple[type["Value"], bytes, bytes, bytes | None, bool]
"""Kind, window, tag, content, and whether the store has a row."""

TimersImage = tuple["Domain", "Changes", bool]
"""Domain, what differs from the store, and whether that may have timers."""


class Image:
    """Content that was committed and not written. Nothing in it changes anymore.

    Attributes:
        stored: whether the store has rows of the key.
        erased: windows whose rows in the store are to go first.
        values: those that differ from the store's.
        timers: of the domains in which some do.
        size: what it costs in memory.
    """

    __slots__ = ("erased", "size", "stored", "timers", "values")

    def __init__(
        self,
        stored: bool,
        erased: frozenset[bytes] | None,
        values: list[ValueImage],
        timers: list[TimersImage],
        size: int,
    ) -> None:
        self.stored = stored
        self.erased = erased
        self.values = values
        self.timers = timers
        self.size = size
