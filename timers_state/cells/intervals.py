"""A set of whole numbers as disjoint, sorted, half-open intervals."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


class Intervals:
    """Numbers that were added, range by range. Neighbours are joined, so repeats cost nothing."""

    __slots__ = ("_lowers", "_uppers")

    def __init__(self) -> None:
        self._lowers: list[int] = []
        self._uppers: list[int] = []

    def add(self, lower: int, upper: int) -> None:
        """Adds ``[lower, upper)``, which must not be empty."""
        first = bisect_left(self._uppers, lower)
        last = bisect_right(self._lowers, upper)
        if first < last:
            lower = min(lower, self._lowers[first])
            upper = max(upper, self._uppers[last - 1])
        self._lowers[first:last] = [lower]
        self._uppers[first:last] = [upper]

    def __len__(self) -> int:
        return len(self._lowers)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return zip(self._lowers, self._uppers, strict=True)

    def gaps(self, lower: int, upper: int) -> list[tuple[int, int]]:
        """The parts of ``[lower, upper)`` that were not added, in order."""
        found = []
        for first, end in self:
            if first >= upper:
                break
            if end <= lower:
                continue
            if lower < first:
                found.append((lower, first))
            lower = end
        if lower < upper:
            found.append((lower, upper))
        return found
