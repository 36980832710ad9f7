"""A set: one row per element, without a value."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from timers_state.cells.cell import ENTRY_BYTES, Account, Cell
from timers_state.cells.merge import merged
from timers_state.keys import Kind, prefix_end
from timers_state.store import delete_rows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from timers_state.store import Batch, Store


class Set(Cell):
    """Different strings, read in their byte order.

    In memory: True for what was added, None for what was removed while the store may have it.
    """

    KIND: ClassVar[Kind] = Kind.SET
    __slots__ = ("_items",)

    def __init__(self, scope: Account, tag: bytes, window: bytes, stored: bool) -> None:
        super().__init__(scope, tag, window, stored)
        self._items: dict[bytes, bool | None] = {}

    def add(self, item: bytes) -> None:
        """Puts a string in; nothing changes if it is there. The store is not asked."""
        items = self._items
        scope = self._scope
        before = len(items)
        items[item] = True
        if len(items) != before:
            scope.room -= len(item) + ENTRY_BYTES
        if scope.room < 0:
            scope.lease()

    def remove(self, item: bytes) -> None:
        """Takes a string out, if it is there. The store is not asked."""
        items = self._items
        scope = self._scope
        if item in items:
            del items[item]
            scope.room += len(item) + ENTRY_BYTES
        if self._base:
            items[item] = None
            scope.room -= len(item) + ENTRY_BYTES
        if scope.room < 0:
            scope.lease()

    def contains(self, item: bytes) -> bool:
        """Whether a string is in it."""
        items = self._items
        if item in items or not self._base:
            return items.get(item) is not None
        return self._scope.reach().get(self._prefix() + item) is not None

    def read(self) -> Iterator[bytes]:
        """The strings as they are now; one of the store's is in memory at a time."""
        held = sorted(self._items)
        if not self._base:
            return iter(held)
        marks = [(item, self._items[item]) for item in held]
        prefix = self._prefix()
        cut = len(prefix)
        rows = self._scope.reach().iterate_rows(prefix, prefix_end(prefix))
        return (item for item, _ in merged(((row[cut:], True) for row in rows), marks))

    def is_empty(self) -> bool:
        """Whether there is nothing in it."""
        return next(self.read(), None) is None

    def clear(self) -> None:
        """Removes everything."""
        scope = self._scope
        scope.room += sum(map(len, self._items)) + ENTRY_BYTES * len(self._items)
        self._items = {}
        self._drop()
        if scope.room < 0:
            scope.lease()

    def spill(self, batch: Batch, store: Store) -> None:
        """See ``Cell``."""
        if not (self._items or self._erase):
            return
        prefix = self._prefix()
        if self._erase:
            delete_rows(store, batch, prefix, prefix_end(prefix))
            self._erase = False
        for item, present in self._items.items():
            if present is None:
                batch.delete(prefix + item)
            else:
                batch.put(prefix + item, b"")
                self._base = True
        self._items = {}
