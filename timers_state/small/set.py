"""A set of a record: different strings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from typing_extensions import override

from timers_state.cells.cell import ITEM_BYTES
from timers_state.keys import prefix_end
from timers_state.small.cell import SmallCell
from timers_state.store.store import delete_rows

if TYPE_CHECKING:
    from timers_state.cells.set import Set
    from timers_state.small.record import Copied
    from timers_state.store.store import Batch, Store

_ENTRY_BYTES: Final = ITEM_BYTES + 48
"""What a string costs in a dict, beside its content."""


class SmallSet(SmallCell):
    """What ``Set`` is for a scope. User code cannot remove a single string."""

    __slots__ = ()
    FRESH = dict

    def add(self, item: bytes) -> None:
        """Puts a string in. Nothing changes if the string is there."""
        if item not in self._now():
            self._own()[item] = None
            self._grow(_ENTRY_BYTES + len(item))

    def read(self) -> list[bytes]:
        """All strings, in byte order."""
        return sorted(self._now())

    @staticmethod
    @override
    def with_row(value: Copied | None, suffix: bytes, data: bytes) -> Copied:
        size, items = value or (0, {})
        items[suffix] = None
        return size + _ENTRY_BYTES + len(suffix), items

    @staticmethod
    @override
    def write(
        prefix: bytes, before: Copied | None, after: Copied | None, batch: Batch, store: Store
    ) -> None:
        """Each string that was added is a row."""
        is_anew, added = _change(before, after)
        if is_anew:
            delete_rows(store, batch, prefix, prefix_end(prefix))
        for item in added:
            batch.put(prefix + item, b"")

    @staticmethod
    @override
    def tell(cell: Set, before: Copied | None, after: Copied | None) -> None:
        is_anew, added = _change(before, after)
        if is_anew:
            cell.clear()
        for item in added:
            cell.add(item)


def _change(before: Copied | None, after: Copied | None) -> tuple[bool, list[bytes]]:
    """Whether the strings before have to go, and those to add."""
    _, old = before or (0, {})
    _, new = after or (0, {})
    is_anew = not old.keys() <= new.keys()
    return is_anew, [item for item in new if is_anew or item not in old]
