"""A bag of a record: strings in the order in which they were added."""

from __future__ import annotations

from typing import TYPE_CHECKING

from timers_state.cells.segment import decode_segment, encode_segment, segments_of
from timers_state.keys import prefix_end, segment_suffix
from timers_state.small.items import NO_BAG, SmallItems, added_since, all_of, with_more
from timers_state.store import delete_rows

if TYPE_CHECKING:
    from timers_state.cells import Bag
    from timers_state.record import Items
    from timers_state.store import Batch, Store


class SmallBag(SmallItems):
    """What ``Bag`` is for a scope."""

    __slots__ = ()
    NOTHING = NO_BAG
    FRESH = list

    def append(self, item: bytes) -> None:
        """Adds one string at the end."""
        self._added.append(item)
        self._is_more(item)

    def read(self) -> tuple[bytes, ...]:
        """All strings."""
        return (*all_of(self._stored()), *self._added)

    @staticmethod
    def with_row(value: Items | None, suffix: bytes, data: bytes) -> Items:
        """See ``SmallCell``."""
        del suffix
        return with_more(value or NO_BAG, decode_segment(data))

    @staticmethod
    def write(
        prefix: bytes, before: Items | None, after: Items | None, batch: Batch, store: Store
    ) -> None:
        """See ``SmallCell``. What was appended is one more segment."""
        added = added_since(before, after)
        if added is None:
            delete_rows(store, batch, prefix, prefix_end(prefix))
            added = all_of(after)
        for index, segment in enumerate(segments_of(list(added))):
            batch.put(prefix + segment_suffix(batch.sequence, index), encode_segment(segment))

    @staticmethod
    def tell(cell: Bag, before: Items | None, after: Items | None) -> None:
        """See ``SmallCell``."""
        added = added_since(before, after)
        if added is None:
            cell.clear()
            added = all_of(after)
        cell.extend(list(added))
