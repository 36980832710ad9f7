"""A set of a record: different strings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from typing_extensions import override

from timers_state.cells.cell import ITEM_BYTES
from timers_state.small.map import SmallMap

if TYPE_CHECKING:
    from timers_state.small.record import Copied

_ENTRY_BYTES: Final = ITEM_BYTES + 48
"""What a string costs in a dict, beside its content."""


class SmallSet(SmallMap):
    """What ``Set`` is for a scope: a map with empty values. User code removes no single string."""

    def add(self, item: bytes) -> None:
        """Puts a string in. Nothing changes if the string is there."""
        if item not in self._now():
            self._own()[item] = b""
            self._grow(_ENTRY_BYTES + len(item))

    def read(self) -> list[bytes]:
        """All strings, in byte order."""
        return sorted(self._now())

    @staticmethod
    @override
    def with_row(value: Copied | None, suffix: bytes, data: bytes) -> Copied:
        size, items = value or (0, {})
        items[suffix] = data
        return size + _ENTRY_BYTES + len(suffix), items
