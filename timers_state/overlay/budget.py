"""How many bytes of memory the keys of an overlay may take, and how many are free."""

from __future__ import annotations

from typing import Final

MOST_ROOM: Final = 1 << 20
"""A key is never lent more bytes than this beyond what it needs."""


class MemoryBudget:
    """Bytes that are lent to keys, and given back.

    Whatever is in memory has taken its bytes from ``free``: what is free and what was taken are
    always ``size``.

    Attributes:
        size: how many bytes there are.
        free: how many of them are not taken. It is negative where more had to be kept than fits.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.free = size

    def lend(self, need: int, leased: int) -> int:
        """Takes at least ``need`` bytes, whether they are free or not; returns how many.

        A borrower that has ``leased`` many bytes gets as many again if they are free, so that a key
        that grows asks rarely.
        """
        grant = max(need, min(need + leased, MOST_ROOM, self.free))
        self.free -= grant
        return grant
