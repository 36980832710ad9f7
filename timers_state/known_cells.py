"""The cells of a key that the store has, as long as nobody has asked for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from timers_state.cells import RoundBag, Value
from timers_state.cells.cell import ENTRY_BYTES, ITEM_BYTES, Cell
from timers_state.cells.round_bag import KEPT_BYTES
from timers_state.cells.segment import decode_segment
from timers_state.keys import Kind, cell_of_row

if TYPE_CHECKING:
    from collections.abc import Sequence

    from timers_state.round_scope import RoundScope

C = TypeVar("C", bound=Cell)

Content = bytes | list[bytes] | None
"""Of a value or an accumulator, of a bag; None: it is to be read from the store."""


class KnownCells:
    """What all rows of a key's cells have, before any of these changes.

    A cell that is not among them has nothing in the store, so it need not be looked for.

    Args:
        rows: all that the store has of the key in the family of cells.
        cut: the length of their ``owner_prefix``.

    Attributes:
        size: what it costs in memory.
    """

    __slots__ = ("_contents", "size")

    def __init__(self, rows: Sequence[tuple[bytes, bytes]], cut: int) -> None:
        contents: dict[tuple[bytes, bytes, Kind], Content] = {}
        self._contents = contents
        self.size = 0
        for row, value in rows:
            window, tag, kind, _ = cell_of_row(row, cut)
            place = (window, tag, kind)
            if kind is Kind.VALUE or kind is Kind.COMBINING:
                contents[place] = value
            elif kind is Kind.BAG:
                items = decode_segment(value)
                before = contents.get(place)
                contents[place] = [*before, *items] if isinstance(before, list) else items
            else:
                contents[place] = None
        for place, content in contents.items():
            if isinstance(content, list) and _size_of(content) > KEPT_BYTES:
                contents[place] = None
            self.size += ENTRY_BYTES + _size_of(contents[place])

    def make(self, scope: RoundScope, kind: type[C], tag: bytes, window: bytes) -> C:
        """A new cell of the scope that knows what is known; each cell is made once."""
        place = (window, tag, kind.KIND)
        if place not in self._contents:
            return kind(scope, tag, window, False)
        content = self._contents.pop(place)
        cell = kind(scope, tag, window, True)
        scope.room += ENTRY_BYTES
        if isinstance(cell, RoundBag):
            if isinstance(content, list):
                cell.know(content, _size_of(content))
        elif isinstance(cell, Value) and isinstance(content, bytes):
            cell.know(content)
        return cell

    def forget_window(self, window: bytes) -> int:
        """Nothing of a window counts anymore; returns what that had cost."""
        gone = [place for place in self._contents if place[0] == window]
        return sum(ENTRY_BYTES + _size_of(self._contents.pop(place)) for place in gone)


def _size_of(content: Content) -> int:
    if content is None:
        return 0
    if isinstance(content, bytes):
        return len(content)
    return sum(map(len, content)) + ITEM_BYTES * len(content)
