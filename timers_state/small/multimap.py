"""A multimap of a record: keys with a bag of values each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from typing_extensions import override

from timers_state.cells.cell import ENTRY_BYTES, ITEM_BYTES
from timers_state.cells.segment import decode_segment, put_segments
from timers_state.keys import entry_of, entry_prefix, prefix_end
from timers_state.small.cell import SmallCell, appended
from timers_state.store.store import delete_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from timers_state.cells.multimap import Multimap
    from timers_state.small.record import Copied
    from timers_state.store.store import Batch, Store


class SmallMultimap(SmallCell):
    """What ``Multimap`` is for a scope. The values of a key are a tuple."""

    FRESH = dict

    def put(self, key: bytes, value: bytes) -> None:
        """Adds a value under ``key``."""
        entries = self._own()
        before = entries.get(key)
        entries[key] = (value,) if before is None else (*before, value)
        self._grow((_cost(key, ()) if before is None else 0) + ITEM_BYTES + len(value))

    def get(self, key: bytes) -> tuple[bytes, ...]:
        """The values of ``key``, in the order of putting."""
        values: tuple[bytes, ...] = self._now().get(key, ())
        return values

    def keys(self) -> list[bytes]:
        """The keys that have values, in byte order."""
        return sorted(self._now())

    def remove(self, key: bytes) -> None:
        """Removes ``key`` with all its values."""
        if key in self._now():
            self._grow(-_cost(key, self._own().pop(key)))

    @staticmethod
    @override
    def with_row(value: Copied | None, suffix: bytes, data: bytes) -> Copied:
        size, entries = value or (0, {})
        key, values = entry_of(suffix, 0), decode_segment(data)
        before = entries.get(key)
        entries[key] = (*(before or ()), *values)
        return size + _cost(key, values) - (0 if before is None else _cost(key, ())), entries

    @staticmethod
    @override
    def write(
        prefix: bytes, before: Copied | None, after: Copied | None, batch: Batch, store: Store
    ) -> None:
        """What was put under a key is one more segment."""
        for key, is_anew, added in appended(_of(before), _of(after), ()):
            entry = entry_prefix(prefix, key)
            if is_anew:
                delete_rows(store, batch, entry, prefix_end(entry))
            put_segments(batch, entry, list(added))

    @staticmethod
    @override
    def tell(cell: Multimap, before: Copied | None, after: Copied | None) -> None:
        for key, is_anew, added in appended(_of(before), _of(after), ()):
            if is_anew:
                cell.remove(key)
            for value in added:
                cell.put(key, value)


def _cost(key: bytes, values: Sequence[bytes]) -> int:
    return ENTRY_BYTES + len(key) + ITEM_BYTES * len(values) + sum(map(len, values))


def _of(value: Copied | None) -> Any:
    return {} if value is None else value[1]
