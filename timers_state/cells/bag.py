"""A bag: appended in segments, never read to be written; short content stays in memory."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, ClassVar, Final

from typing_extensions import override

from timers_state.cells.cell import (
    CELL_BYTES,
    ITEM_BYTES,
    NOTHING,
    SAME,
    TO_WRITE,
    Account,
    Cell,
    Difference,
)
from timers_state.cells.segment import decode_segment, encode_segment, put_segments
from timers_state.keys import Kind, prefix_end, segment_suffix

if TYPE_CHECKING:
    from collections.abc import Iterator

    from timers_state.store.store import Batch, Store

KEPT_BYTES: Final = 16 * 1024
"""A bag that costs more than this in memory is read from the store."""


class Bag(Cell):
    """Strings of bytes in the order in which they were appended.

    Rows are segments, numbered by the batch that wrote them: the next segment sorts last, and its
    writer need not know how many there are. ``_written`` is all that the store has of the bag, or
    None if it is not known.
    """

    KIND: ClassVar[Kind] = Kind.BAG
    __slots__ = ("_items", "_written", "_written_bytes")

    def __init__(self, scope: Account, tag: bytes, window: bytes, stored: bool) -> None:
        super().__init__(scope, tag, window, stored)
        self._items: list[bytes] = []
        self._written: list[bytes] | None = None if stored else []
        self._written_bytes = 0

    def append(self, item: bytes) -> None:
        """Adds one string at the end."""
        self._items.append(item)
        scope = self._scope
        scope.room -= len(item) + ITEM_BYTES
        if scope.room < 0:
            scope.lease()

    def extend(self, items: list[bytes]) -> None:
        """Adds strings at the end; they are in memory together until this returns."""
        self._items += items
        scope = self._scope
        scope.room -= sum(map(len, items)) + ITEM_BYTES * len(items)
        if scope.room < 0:
            scope.lease()

    def segments(self) -> Iterator[list[bytes]]:
        """The content as it is now, in order, as lists of which one is in memory at a time.

        What is appended or cleared while the iterator is in use does not show in it.
        """
        written, items = self._written, self._items
        if written is not None:
            held = written + items
            return iter([held] if held else [])
        prefix = self._prefix()
        rows = self._scope.reach().iterate(prefix, prefix_end(prefix))
        stored = (decode_segment(value) for _, value in rows)
        return chain(stored, [items[:]] if items else [])

    def read(self) -> Iterator[bytes]:
        """As ``segments``, string by string."""
        written = self._written
        if written is None:
            return chain.from_iterable(self.segments())
        return iter(written + self._items)

    def clear(self) -> None:
        """Removes everything."""
        scope = self._scope
        scope.room += self._written_bytes
        scope.room += sum(map(len, self._items)) + ITEM_BYTES * len(self._items)
        self._written = []
        self._written_bytes = 0
        self._items = []
        self._drop()
        if scope.room < 0:
            scope.lease()

    @override
    def difference(self) -> Difference:
        if self._items or self._erase:
            return TO_WRITE
        return SAME if self._base else NOTHING

    @override
    def disown(self) -> None:
        super().disown()
        self._written = None

    @override
    def spill(self, batch: Batch, store: Store) -> None:
        self._write(batch, store)
        self._written = None if self._base else []
        self._written_bytes = 0

    @override
    def settle(self, batch: Batch, store: Store) -> int:
        items = self._items
        if not items and not self._erase:
            return CELL_BYTES + self._written_bytes if self._base else 0
        cost = sum(map(len, items)) + ITEM_BYTES * len(items)
        if items and not self._erase and cost <= KEPT_BYTES:  # as below, for what is common
            batch.put(self._prefix() + segment_suffix(batch.sequence, 0), encode_segment(items))
            self._base = True
            self._items = []
        else:
            self._write(batch, store)
        written = self._written
        if items and written is not None:
            cost += self._written_bytes
            if cost > KEPT_BYTES:
                self._written = None
                self._written_bytes = 0
            else:
                self._written_bytes = cost
                if written:
                    written += items
                else:
                    self._written = items
        return CELL_BYTES + self._written_bytes if self._base else 0

    def _write(self, batch: Batch, store: Store) -> None:
        if not (self._items or self._erase):
            return
        prefix = self._erased(batch, store)
        if self._items:
            put_segments(batch, prefix, self._items)
            self._base = True
        self._items = []
