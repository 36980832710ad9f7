"""A bag of a record: strings in the order in which they were added."""

from __future__ import annotations

from typing import TYPE_CHECKING

from typing_extensions import override

from timers_state.cells.cell import ITEM_BYTES
from timers_state.cells.segment import decode_segment, put_segments
from timers_state.keys import prefix_end
from timers_state.small.cell import SmallCell
from timers_state.small.record import MOST_ITEM_BYTES
from timers_state.store.store import delete_rows

if TYPE_CHECKING:
    from timers_state.cells.bag import Bag
    from timers_state.small.record import Copied
    from timers_state.store.store import Batch, Store


class SmallBag(SmallCell):
    """What ``Bag`` is for a scope."""

    FRESH = list

    def append(self, item: bytes) -> None:
        """Adds one string at the end."""
        # No calls where they can be spared: a bag may get many strings.
        items = self._items
        if items is None:
            items = self._own()
        items.append(item)
        self._size += ITEM_BYTES + len(item)
        if self._size > MOST_ITEM_BYTES:
            self._turn.outgrow()

    def read(self) -> tuple[bytes, ...]:
        """All strings."""
        return tuple(self._now())

    @staticmethod
    @override
    def with_row(value: Copied | None, suffix: bytes, data: bytes) -> Copied:
        size, items = value or (0, [])
        added = decode_segment(data)
        items += added
        return size + sum(map(len, added)) + ITEM_BYTES * len(added), items

    @staticmethod
    @override
    def write(
        prefix: bytes, before: Copied | None, after: Copied | None, batch: Batch, store: Store
    ) -> None:
        """What was appended is one more segment."""
        is_anew, added = _change(before, after)
        if is_anew:
            delete_rows(store, batch, prefix, prefix_end(prefix))
        put_segments(batch, prefix, added)

    @staticmethod
    @override
    def tell(cell: Bag, before: Copied | None, after: Copied | None) -> None:
        is_anew, added = _change(before, after)
        if is_anew:
            cell.clear()
        cell.extend(added)


def _change(before: Copied | None, after: Copied | None) -> tuple[bool, list[bytes]]:
    """Whether the strings before have to go, and those to append."""
    _, old = before or (0, [])
    _, new = after or (0, [])
    is_anew = new[: len(old)] != old
    return is_anew, new if is_anew else new[len(old) :]
