"""An ordered list: one row per element, sorted by a signed 64-bit number."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from heapq import merge
from itertools import chain
from operator import itemgetter
from typing import TYPE_CHECKING, ClassVar, Final

from typing_extensions import override

from timers_state.cells.cell import ITEM_BYTES, Account, Cell
from timers_state.keys import (
    I64_MAX,
    I64_MIN,
    Kind,
    sort_key_bound,
    sort_key_of,
    sorted_suffix,
)
from timers_state.store.store import delete_rows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from timers_state.store.store import Batch, Store

PAIR_BYTES: Final = ITEM_BYTES + 88
"""What an element costs in memory beside its content: a tuple and a number."""

_sort_key = itemgetter(0)


def check_sort_key(sort_key: int) -> None:
    """Raises ValueError if a sort key does not fit into 64 bits."""
    if not I64_MIN <= sort_key <= I64_MAX:
        message = f"the sort key {sort_key} does not fit into a signed 64-bit number"
        raise ValueError(message)


class Intervals:
    """Whole numbers that were added, range by range; as disjoint, sorted, half-open intervals.

    Neighbours are joined, so repeats cost nothing.
    """

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


class OrderedList(Cell):
    """(sort key, bytes) by sort key; equal sort keys in the order of appending.

    In memory: what was appended since the last writing, and the ranges whose rows are to go first.
    """

    KIND: ClassVar[Kind] = Kind.ORDERED_LIST
    __slots__ = ("_cleared", "_items", "_sorted")

    def __init__(self, scope: Account, tag: bytes, window: bytes, stored: bool) -> None:
        super().__init__(scope, tag, window, stored)
        self._items: list[tuple[int, bytes]] = []
        self._sorted = True
        self._cleared: Intervals | None = None

    def append(self, sort_key: int, item: bytes) -> None:
        """Adds an element; ValueError if the sort key does not fit into 64 bits."""
        check_sort_key(sort_key)
        self._items.append((sort_key, item))
        self._sorted = False
        scope = self._scope
        scope.room -= len(item) + PAIR_BYTES
        if scope.room < 0:
            scope.lease()

    def read(self, lower: int = I64_MIN, upper: int = I64_MAX + 1) -> Iterator[tuple[int, bytes]]:
        """Elements with sort keys in ``[lower, upper)`` as they are now.

        One element of the store is in memory at a time.
        """
        start, end = self._slice(lower, upper)
        held = self._items[start:end]
        if not self._base:
            return iter(held)
        prefix = self._prefix()
        store = self._scope.reach()
        gaps = self._cleared.gaps(lower, upper) if self._cleared else [(lower, upper)]
        ranges = [
            store.iterate(sort_key_bound(prefix, first), sort_key_bound(prefix, end))
            for first, end in gaps
        ]
        rows = ((sort_key_of(row), item) for row, item in chain.from_iterable(ranges))
        return merge(rows, held, key=_sort_key)

    def clear_range(self, lower: int, upper: int) -> None:
        """Removes the elements with sort keys in ``[lower, upper)``."""
        start, end = self._slice(lower, upper)
        scope = self._scope
        scope.room += sum(len(item) + PAIR_BYTES for _, item in self._items[start:end])
        del self._items[start:end]
        if self._base and lower < upper:
            if self._cleared is None:
                self._cleared = Intervals()
            self._cleared.add(lower, upper)
            scope.room -= PAIR_BYTES
        if scope.room < 0:
            scope.lease()

    def clear(self) -> None:
        """Removes everything."""
        scope = self._scope
        scope.room += sum(len(item) + PAIR_BYTES for _, item in self._items)
        self._items = []
        self._cleared = None
        self._drop()
        if scope.room < 0:
            scope.lease()

    @override
    def spill(self, batch: Batch, store: Store) -> None:
        if not (self._items or self._cleared or self._erase):
            return
        prefix = self._erased(batch, store)
        for lower, upper in self._cleared or ():
            first, end = sort_key_bound(prefix, lower), sort_key_bound(prefix, upper)
            delete_rows(store, batch, first, end)
        for index, (sort_key, item) in enumerate(self._items):
            batch.put(prefix + sorted_suffix(sort_key, batch.sequence, index), item)
            self._base = True
        self._items = []
        self._sorted = True
        self._cleared = None

    def _slice(self, lower: int, upper: int) -> tuple[int, int]:
        if not self._sorted:
            self._items.sort(key=_sort_key)
            self._sorted = True
        start = bisect_left(self._items, lower, key=_sort_key)
        return start, bisect_left(self._items, upper, lo=start, key=_sort_key)
