"""A bag: appended in segments, never read to be written."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, ClassVar

from timers_state.cells.cell import ITEM_BYTES, Account, Cell
from timers_state.cells.segment import decode_segment, encode_segment, segments_of
from timers_state.keys import Kind, prefix_end, segment_suffix
from timers_state.store import delete_rows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from timers_state.store import Batch, Store


class Bag(Cell):
    """Strings of bytes in the order in which they were appended.

    Rows are segments, numbered by the batch that wrote them: the next segment sorts last without
    anybody knowing how many there are.
    """

    KIND: ClassVar[Kind] = Kind.BAG
    __slots__ = ("_items",)

    def __init__(self, scope: Account, tag: bytes, window: bytes, stored: bool) -> None:
        super().__init__(scope, tag, window, stored)
        self._items: list[bytes] = []

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
        held = [self._items[:]] if self._items else []
        if not self._base:
            return iter(held)
        prefix = self._prefix()
        rows = self._scope.reach().iterate(prefix, prefix_end(prefix))
        return chain((decode_segment(value) for _, value in rows), held)

    def read(self) -> Iterator[bytes]:
        """As ``segments``, string by string."""
        if not self._base:
            return iter(self._items[:])
        return chain.from_iterable(self.segments())

    def is_empty(self) -> bool:
        """Whether there is nothing in it; looks at one row at most."""
        if self._items:
            return False
        if not self._base:
            return True
        prefix = self._prefix()
        return next(self._scope.reach().iterate_rows(prefix, prefix_end(prefix)), None) is None

    def clear(self) -> None:
        """Removes everything."""
        scope = self._scope
        scope.room += sum(map(len, self._items)) + ITEM_BYTES * len(self._items)
        self._items = []
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
        for index, segment in enumerate(segments_of(self._items)):
            batch.put(prefix + segment_suffix(batch.sequence, index), encode_segment(segment))
            self._base = True
        self._items = []
