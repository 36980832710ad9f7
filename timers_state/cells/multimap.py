"""A multimap: a bag of values per key, in segments like a bag."""

from __future__ import annotations

from itertools import chain, groupby
from typing import TYPE_CHECKING, ClassVar

from typing_extensions import override

from timers_state.cells.cell import ENTRY_BYTES, ITEM_BYTES, Account, Cell, merged
from timers_state.cells.segment import decode_segment, put_segments
from timers_state.keys import Kind, entry_of, entry_prefix, prefix_end
from timers_state.store.store import delete_rows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from timers_state.store.store import Batch, Store


class Multimap(Cell):
    """Keys, read in byte order, with the values put under each, in the order of putting.

    In memory: the values put since the last writing, and the keys whose rows are to go first.
    """

    KIND: ClassVar[Kind] = Kind.MULTIMAP
    __slots__ = ("_entries", "_removed")

    def __init__(self, scope: Account, tag: bytes, window: bytes, stored: bool) -> None:
        super().__init__(scope, tag, window, stored)
        self._entries: dict[bytes, list[bytes]] = {}
        self._removed: set[bytes] = set()

    def put(self, key: bytes, value: bytes) -> None:
        """Adds a value under ``key``. The store is not asked."""
        scope = self._scope
        values = self._entries.get(key)
        if values is None:
            self._entries[key] = [value]
            scope.room -= len(key) + ENTRY_BYTES
        else:
            values.append(value)
        scope.room -= len(value) + ITEM_BYTES
        if scope.room < 0:
            scope.lease()

    def segments(self, key: bytes) -> Iterator[list[bytes]]:
        """The values of ``key`` as they are now, as lists of which one is in memory at a time."""
        values = self._entries.get(key)
        held = [values[:]] if values else []
        if not self._base or key in self._removed:
            return iter(held)
        prefix = entry_prefix(self._prefix(), key)
        rows = self._scope.reach().iterate(prefix, prefix_end(prefix))
        return chain((decode_segment(value) for _, value in rows), held)

    def get(self, key: bytes) -> Iterator[bytes]:
        """As ``segments``, value by value."""
        return chain.from_iterable(self.segments(key))

    def keys(self) -> Iterator[bytes]:
        """The keys that have values, as they are now. Passes over every segment's row."""
        held = sorted(self._entries)
        if not self._base:
            return iter(held)
        changes: dict[bytes, bool | None] = dict.fromkeys(self._removed)
        changes.update(dict.fromkeys(held, True))
        prefix = self._prefix()
        rows = self._scope.reach().iterate_rows(prefix, prefix_end(prefix))
        cut = len(prefix)
        stored = groupby(entry_of(row, cut) for row in rows)
        return (
            key for key, _ in merged(((key, True) for key, _ in stored), sorted(changes.items()))
        )

    def remove(self, key: bytes) -> None:
        """Removes ``key`` with all its values."""
        scope = self._scope
        values = self._entries.pop(key, None)
        if values is not None:
            scope.room += len(key) + ENTRY_BYTES + sum(map(len, values)) + ITEM_BYTES * len(values)
        if self._base and key not in self._removed:
            self._removed.add(key)
            scope.room -= len(key) + ENTRY_BYTES
        if scope.room < 0:
            scope.lease()

    def clear(self) -> None:
        """Removes everything."""
        scope = self._scope
        for key, values in self._entries.items():
            scope.room += len(key) + ENTRY_BYTES + sum(map(len, values)) + ITEM_BYTES * len(values)
        scope.room += sum(map(len, self._removed)) + ENTRY_BYTES * len(self._removed)
        self._entries = {}
        self._removed = set()
        self._drop()
        if scope.room < 0:
            scope.lease()

    @override
    def spill(self, batch: Batch, store: Store) -> None:
        if not (self._entries or self._removed or self._erase):
            return
        prefix = self._erased(batch, store)
        for key in self._removed:
            entry = entry_prefix(prefix, key)
            delete_rows(store, batch, entry, prefix_end(entry))
        for key, values in self._entries.items():
            put_segments(batch, entry_prefix(prefix, key), values)
            self._base = True
        self._entries = {}
        self._removed = set()
