"""A map: one row per key."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from typing_extensions import override

from timers_state.cells.cell import ENTRY_BYTES, Account, Cell, merged
from timers_state.keys import Kind, prefix_end

if TYPE_CHECKING:
    from collections.abc import Iterator

    from timers_state.store.store import Batch, Store


class Map(Cell):
    """Keys with one value each, read in the byte order of the keys.

    In memory: what was put, and None for what was removed while the store may have it.
    """

    KIND: ClassVar[Kind] = Kind.MAP
    __slots__ = ("_entries",)

    def __init__(self, scope: Account, tag: bytes, window: bytes, stored: bool) -> None:
        super().__init__(scope, tag, window, stored)
        self._entries: dict[bytes, bytes | None] = {}

    def get(self, key: bytes) -> bytes | None:
        """The value of ``key``, None if it has none."""
        entries = self._entries
        if key in entries or not self._base:
            return entries.get(key)
        return self._scope.reach().get(self._prefix() + key)

    def put(self, key: bytes, value: bytes) -> None:
        """Gives ``key`` a value."""
        entries = self._entries
        count = len(entries)
        before = entries.get(key)
        entries[key] = value
        scope = self._scope
        scope.room -= len(value) - (len(before) if before else 0)
        if len(entries) != count:
            scope.room -= len(key) + ENTRY_BYTES
        if scope.room < 0:
            scope.lease()

    def remove(self, key: bytes) -> None:
        """Takes ``key`` out, if it is there. The store is not asked."""
        scope = self._scope
        if key in self._entries:
            before = self._entries.pop(key)
            scope.room += len(key) + len(before or b"") + ENTRY_BYTES
        if self._base:
            self._entries[key] = None
            scope.room -= len(key) + ENTRY_BYTES
        if scope.room < 0:
            scope.lease()

    def items(self) -> Iterator[tuple[bytes, bytes]]:
        """Keys and values as they are now; one entry of the store is in memory at a time."""
        held = sorted(self._entries.items())
        if not self._base:
            return ((key, value) for key, value in held if value is not None)
        prefix = self._prefix()
        cut = len(prefix)
        rows = self._scope.reach().iterate(prefix, prefix_end(prefix))
        return merged(((row[cut:], value) for row, value in rows), held)

    def keys(self) -> Iterator[bytes]:
        """Keys as they are now; values are not read."""
        if not self._base:
            return iter(sorted(self._entries))
        prefix = self._prefix()
        cut = len(prefix)
        rows = self._scope.reach().iterate_rows(prefix, prefix_end(prefix))
        found = merged(((row[cut:], b"") for row in rows), sorted(self._entries.items()))
        return (key for key, _ in found)

    def clear(self) -> None:
        """Removes everything."""
        scope = self._scope
        for key, value in self._entries.items():
            scope.room += len(key) + len(value or b"") + ENTRY_BYTES
        self._entries = {}
        self._drop()
        if scope.room < 0:
            scope.lease()

    @override
    def spill(self, batch: Batch, store: Store) -> None:
        if not (self._entries or self._erase):
            return
        prefix = self._erased(batch, store)
        for key, value in self._entries.items():
            if value is None:
                batch.delete(prefix + key)
            else:
                batch.put(prefix + key, value)
                self._base = True
        self._entries = {}
