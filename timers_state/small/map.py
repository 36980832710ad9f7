"""A map of a record: keys with one value each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from typing_extensions import override

from timers_state.cells.cell import ENTRY_BYTES
from timers_state.small.cell import SmallCell

if TYPE_CHECKING:
    from collections.abc import Iterator

    from timers_state.cells.map import Map
    from timers_state.small.record import Copied
    from timers_state.store.store import Batch, Store


class SmallMap(SmallCell):
    """What ``Map`` is for a scope."""

    FRESH = dict

    def get(self, key: bytes) -> bytes | None:
        """The value of ``key``, None if it has none."""
        value: bytes | None = self._now().get(key)
        return value

    def put(self, key: bytes, value: bytes) -> None:
        """Gives ``key`` a value."""
        entries = self._own()
        before = entries.get(key)
        entries[key] = value
        self._grow(len(value) - (-ENTRY_BYTES - len(key) if before is None else len(before)))

    def remove(self, key: bytes) -> None:
        """Takes ``key`` out, if it is there."""
        if key in self._now():
            self._grow(-ENTRY_BYTES - len(key) - len(self._own().pop(key)))

    def items(self) -> list[tuple[bytes, bytes]]:
        """Keys and values, in the byte order of the keys."""
        return sorted(self._now().items())

    def keys(self) -> list[bytes]:
        """Keys, in byte order."""
        return sorted(self._now())

    @staticmethod
    @override
    def with_row(value: Copied | None, suffix: bytes, data: bytes) -> Copied:
        size, entries = value or (0, {})
        entries[suffix] = data
        return size + ENTRY_BYTES + len(suffix) + len(data), entries

    @staticmethod
    @override
    def write(
        prefix: bytes, before: Copied | None, after: Copied | None, batch: Batch, store: Store
    ) -> None:
        """Each key is a row."""
        for key, value in _changes(before, after):
            if value is None:
                batch.delete(prefix + key)
            else:
                batch.put(prefix + key, value)

    @staticmethod
    @override
    def tell(cell: Map, before: Copied | None, after: Copied | None) -> None:
        for key, value in _changes(before, after):
            if value is None:
                cell.remove(key)
            else:
                cell.put(key, value)


def _changes(before: Copied | None, after: Copied | None) -> Iterator[tuple[bytes, bytes | None]]:
    """Keys that differ, with their new values; None: the key is gone."""
    old, new = before[1] if before else {}, after[1] if after else {}
    for key, value in new.items():
        if old.get(key) != value:
            yield key, value
    for key in old:
        if key not in new:
            yield key, None
