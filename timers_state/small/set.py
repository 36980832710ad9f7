"""A set of a record: different strings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from timers_state.keys import prefix_end
from timers_state.small.items import NO_SET, SmallItems, added_since, all_of, is_among, with_more
from timers_state.store import delete_rows

if TYPE_CHECKING:
    from timers_state.cells import Set
    from timers_state.record import Items
    from timers_state.store import Batch, Store


class SmallSet(SmallItems):
    """What ``Set`` is for a scope. User code cannot remove a single string."""

    __slots__ = ()
    NOTHING = NO_SET
    FRESH = dict

    def add(self, item: bytes) -> None:
        """Puts a string in. Nothing changes if the string is there."""
        if item not in self._added and not is_among(item, self._stored()):
            self._added[item] = None
            self._is_more(item)

    def read(self) -> list[bytes]:
        """All strings, in byte order."""
        return sorted((*all_of(self._stored()), *self._added))

    @staticmethod
    def with_row(value: Items | None, suffix: bytes, data: bytes) -> Items:
        """See ``SmallCell``."""
        del data
        return with_more(value or NO_SET, (suffix,))

    @staticmethod
    def write(
        prefix: bytes, before: Items | None, after: Items | None, batch: Batch, store: Store
    ) -> None:
        """See ``SmallCell``. Each string that was added is a row."""
        added = added_since(before, after)
        if added is None:
            delete_rows(store, batch, prefix, prefix_end(prefix))
            added = all_of(after)
        for item in added:
            batch.put(prefix + item, b"")

    @staticmethod
    def tell(cell: Set, before: Items | None, after: Items | None) -> None:
        """See ``SmallCell``."""
        added = added_since(before, after)
        if added is None:
            cell.clear()
            added = all_of(after)
        for item in added:
            cell.add(item)
