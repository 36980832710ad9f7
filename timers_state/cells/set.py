"""A set: one row per element, without a value."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from timers_state.cells.map import Map
from timers_state.keys import Kind

if TYPE_CHECKING:
    from collections.abc import Iterator


class Set(Map):
    """Different strings, read in their byte order: a map with empty values, of another kind."""

    KIND: ClassVar[Kind] = Kind.SET
    __slots__ = ()

    def add(self, item: bytes) -> None:
        """Puts a string in; nothing changes if it is there. The store is not asked."""
        self.put(item, b"")

    def contains(self, item: bytes) -> bool:
        """Whether a string is in it."""
        return self.get(item) is not None

    def read(self) -> Iterator[bytes]:
        """The strings as they are now; one of the store's is in memory at a time."""
        return self.keys()
