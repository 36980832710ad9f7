"""A bag that keeps short content in memory after it was written."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, ClassVar, Final

from timers_state.cells.bag import Bag
from timers_state.cells.cell import (
    CELL_BYTES,
    ITEM_BYTES,
    NOTHING,
    SAME,
    TO_WRITE,
    Account,
    Difference,
)
from timers_state.cells.segment import encode_segment
from timers_state.keys import Kind, segment_suffix

if TYPE_CHECKING:
    from collections.abc import Iterator

    from timers_state.store import Batch, Store

KEPT_BYTES: Final = 16 * 1024
"""A bag that costs more than this in memory is read from the store."""


class RoundBag(Bag):
    """A bag for rounds: ``_written`` is all that the store has of it, None if that is not known."""

    KIND: ClassVar[Kind] = Kind.BAG
    __slots__ = ("_written", "_written_bytes")

    def __init__(self, scope: Account, tag: bytes, window: bytes, stored: bool) -> None:
        super().__init__(scope, tag, window, stored)
        self._written: list[bytes] | None = None if stored else []
        self._written_bytes = 0

    def segments(self) -> Iterator[list[bytes]]:
        """See ``Bag``."""
        written = self._written
        if written is None:
            return super().segments()
        held = written + self._items
        return iter([held] if held else [])

    def read(self) -> Iterator[bytes]:
        """See ``Bag``."""
        written = self._written
        if written is None:
            return chain.from_iterable(super().segments())
        return iter(written + self._items)

    def is_empty(self) -> bool:
        """See ``Bag``."""
        written = self._written
        if written is None:
            return super().is_empty()
        return not (written or self._items)

    def clear(self) -> None:
        """See ``Bag``."""
        self._scope.room += self._written_bytes
        self._written = []
        self._written_bytes = 0
        super().clear()

    def difference(self) -> Difference:
        """See ``Cell``."""
        if self._items or self._erase:
            return TO_WRITE
        return SAME if self._base else NOTHING

    def disown(self) -> None:
        """See ``Cell``."""
        super().disown()
        self._written = None

    def spill(self, batch: Batch, store: Store) -> None:
        """See ``Cell``."""
        super().spill(batch, store)
        self._written = None if self._base else []
        self._written_bytes = 0

    def settle(self, batch: Batch, store: Store) -> int:
        """See ``Cell``."""
        items = self._items
        if not items and not self._erase:
            return CELL_BYTES + self._written_bytes if self._base else 0
        cost = sum(map(len, items)) + ITEM_BYTES * len(items)
        if items and not self._erase and cost <= KEPT_BYTES:  # as below, for what is common
            batch.put(self._prefix() + segment_suffix(batch.sequence, 0), encode_segment(items))
            self._base = True
            self._items = []
        else:
            super().spill(batch, store)
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
