"""The keys that a store may have rows of; the overlay does not look for rows of other keys.

Few keys are remembered as they are. Beyond that there are Bloom filters. A filter never denies a
key that was added, and takes one in some hundreds of the other keys for an added one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable


Ident = tuple[int, bytes]
"""State id and key."""

MOST_EXACT: Final = 100_000
# How many keys go into each filter: 16 bits for each, so 2 MiB, then 8.
_CAPACITIES: Final = (1 << 20, 1 << 22)
_BITS: Final = 16


class _Filter:
    """A Bloom filter with three bits for each key, which parts of the key's hash number."""

    __slots__ = ("_bits", "_mask", "room")

    def __init__(self, capacity: int) -> None:
        self.room = capacity
        self._mask = capacity * _BITS - 1
        self._bits = bytearray(capacity * _BITS // 8)

    def add(self, ident: Ident) -> None:
        self.room -= 1
        bits, mask, cut = self._bits, self._mask, hash(ident)
        for place in (cut & mask, cut >> 20 & mask, cut >> 40 & mask):
            bits[place >> 3] |= 1 << (place & 7)

    def has(self, cut: int) -> bool:
        bits, mask = self._bits, self._mask
        for place in (cut & mask, cut >> 20 & mask, cut >> 40 & mask):
            if not bits[place >> 3] >> (place & 7) & 1:
                return False
        return True


class Residents:
    """Says of a key whether the store may have rows of it.

    Args:
        most_exact: how many keys are remembered as they are.
        capacities: how many keys each filter beyond that takes; powers of two.
    """

    def __init__(
        self, most_exact: int = MOST_EXACT, capacities: tuple[int, ...] = _CAPACITIES
    ) -> None:
        self._most_exact = most_exact
        self._capacities = capacities
        self._exact: set[Ident] | None = set()
        self._filters: list[_Filter] = []

    def __contains__(self, ident: Ident) -> bool:
        if self._exact is not None:
            return ident in self._exact
        cut = hash(ident)
        for each in self._filters:
            if each.has(cut):
                return True
        return not self._filters

    def add(self, ident: Ident) -> None:
        """The store gets rows of a key."""
        exact = self._exact
        if exact is not None:
            exact.add(ident)
            if len(exact) > self._most_exact:
                self._exact = None
                self._begin_filter()
                for known in exact:
                    self._add_to_filter(known)
        elif self._filters and ident not in self:
            self._add_to_filter(ident)

    def update(self, idents: Iterable[Ident]) -> None:
        """Calls ``add`` for each of some keys."""
        for ident in idents:
            self.add(ident)

    def leave(self, idents: Iterable[Ident]) -> None:
        """The store has no rows of these keys anymore."""
        if self._exact is not None:
            self._exact.difference_update(idents)

    def leave_all(self, state_id: int) -> None:
        """The store has no rows of a state anymore."""
        if self._exact is not None:
            self._exact = {ident for ident in self._exact if ident[0] != state_id}

    def _begin_filter(self) -> None:
        count = len(self._filters)
        if count < len(self._capacities):
            self._filters.append(_Filter(self._capacities[count]))
        else:
            self._filters.clear()  # so many that they are not worth it

    def _add_to_filter(self, ident: Ident) -> None:
        if self._filters and not self._filters[-1].room:
            self._begin_filter()
        if self._filters:
            self._filters[-1].add(ident)
