"""An ordered list of a record: numbers and strings, sorted by the numbers."""

from __future__ import annotations

from bisect import bisect_left
from operator import itemgetter
from typing import TYPE_CHECKING

from typing_extensions import override

from timers_state.cells.ordered_list import PAIR_BYTES, check_sort_key
from timers_state.keys import I64_MAX, I64_MIN, sort_key_bound, sort_key_of, sorted_suffix
from timers_state.small.cell import SmallCell, appended
from timers_state.store.store import delete_rows

if TYPE_CHECKING:
    from timers_state.cells.ordered_list import OrderedList
    from timers_state.small.record import Copied
    from timers_state.store.store import Batch, Store

_sort_key = itemgetter(0)


class SmallOrderedList(SmallCell):
    """What ``OrderedList`` is for a scope. The list is sorted when it is read or stored."""

    FRESH = list

    def append(self, sort_key: int, item: bytes) -> None:
        """Adds an element; ValueError if the sort key does not fit into 64 bits."""
        check_sort_key(sort_key)
        self._own().append((sort_key, item))
        self._grow(len(item) + PAIR_BYTES)

    def read(self, lower: int = I64_MIN, upper: int = I64_MAX + 1) -> list[tuple[int, bytes]]:
        """Elements with sort keys in ``[lower, upper)``; equal ones in the order of appending."""
        items = self._now()
        if items is self._items:
            items.sort(key=_sort_key)
        start = bisect_left(items, lower, key=_sort_key)
        return list(items[start : bisect_left(items, upper, lo=start, key=_sort_key)])

    def clear_range(self, lower: int, upper: int) -> None:
        """Removes the elements with sort keys in ``[lower, upper)``."""
        gone = self.read(lower, upper)
        if gone:
            items = self._own()
            start = bisect_left(items, lower, key=_sort_key)
            del items[start : start + len(gone)]
            self._grow(-sum(len(item) + PAIR_BYTES for _, item in gone))

    @override
    def store(self) -> None:
        self._items.sort(key=_sort_key)
        super().store()

    @staticmethod
    @override
    def with_row(value: Copied | None, suffix: bytes, data: bytes) -> Copied:
        """Rows come in the order of the list."""
        size, items = value or (0, [])
        items.append((sort_key_of(suffix), data))
        return size + len(data) + PAIR_BYTES, items

    @staticmethod
    @override
    def write(
        prefix: bytes, before: Copied | None, after: Copied | None, batch: Batch, store: Store
    ) -> None:
        """Each element that was appended is a row."""
        index = 0
        for sort_key, is_anew, added in appended(_by_sort_key(before), _by_sort_key(after), []):
            if is_anew:
                lower = sort_key_bound(prefix, sort_key)
                delete_rows(store, batch, lower, sort_key_bound(prefix, sort_key + 1))
            for item in added:
                batch.put(prefix + sorted_suffix(sort_key, batch.sequence, index), item)
                index += 1

    @staticmethod
    @override
    def tell(cell: OrderedList, before: Copied | None, after: Copied | None) -> None:
        for sort_key, is_anew, added in appended(_by_sort_key(before), _by_sort_key(after), []):
            if is_anew:
                cell.clear_range(sort_key, sort_key + 1)
            for item in added:
                cell.append(sort_key, item)


def _by_sort_key(value: Copied | None) -> dict[int, list[bytes]]:
    found: dict[int, list[bytes]] = {}
    for sort_key, item in () if value is None else value[1]:
        found.setdefault(sort_key, []).append(item)
    return found
