"""What a key held before the running round changed it, as far as the store has not got it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from timers_state.cells.cell import ValueImage
    from timers_state.keys import Domain, TimerIdent
    from timers_state.large.timer_rows import Change

IMAGE_BYTES: Final = 240
"""What an image costs in memory, but for values and timers."""

TimersImage = tuple["Domain", bool, bytes, tuple[tuple["TimerIdent", "Change"], ...]]
"""Domain, whether the store may have timers, window, and what differs in it from the store."""


class Image(NamedTuple):
    """Content that was committed and not written.

    Attributes:
        stored: whether the store has rows of the key.
        erased: windows whose rows in the store are to go first.
        values: those that differ from the store's.
        timers: windows in which some differ.
    """

    stored: bool
    erased: frozenset[bytes] | None
    values: list[ValueImage]
    timers: list[TimersImage]
    size: int
