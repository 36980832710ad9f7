"""What a record has of a bag or a set: strings, in a tuple that is replaced when some are added.

To add costs what is added: most strings are in a part that stays as it is, the last ones beside it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final

from timers_state.cells.cell import ITEM_BYTES
from timers_state.record import MOST_ITEM_BYTES

if TYPE_CHECKING:
    from collections.abc import Collection

    from timers_state.record import Items
    from timers_state.small.cell import RecordTurn

_ENTRY_BYTES: Final = ITEM_BYTES + 48
"""What a string costs in a dict, beside its content."""

# So many, and what one turn adds to them, are copied when the next ones come.
_FEW: Final = 16

NO_BAG: Final[Items] = (0, (), ())
NO_SET: Final[Items] = (0, {}, ())


def with_more(items: Items, added: Collection[bytes]) -> Items:
    """The same and what is added, at the end; ``items`` stays as it is.

    Args:
        items: those before.
        added: to a set, different strings that it has not got.
    """
    size, first, last = items
    if len(last) >= _FEW:
        first = {**first, **dict.fromkeys(last)} if type(first) is dict else (*first, *last)
        last = ()
    each = _ENTRY_BYTES if type(first) is dict else ITEM_BYTES
    return size + sum(map(len, added)) + each * len(added), first, (*last, *added)


def is_among(item: bytes, items: Items) -> bool:
    """Whether a set has a string."""
    return item in items[1] or item in items[2]


def all_of(items: Items | None) -> tuple[bytes, ...]:
    """All strings, in the order in which they were added."""
    return () if items is None else (*items[1], *items[2])


def added_since(before: Items | None, after: Items | None) -> tuple[bytes, ...] | None:
    """What was added to ``before``; None if it is not the beginning of ``after``."""
    old, new = all_of(before), all_of(after)
    return new[len(old) :] if new[: len(old)] == old else None


class SmallItems:
    """What small bags and sets share: a turn adds strings, or removes all of them."""

    __slots__ = ("_added", "_is_cleared", "_left", "_number", "_turn", "is_changed")
    NOTHING: ClassVar[Items]
    FRESH: ClassVar[type[Any]]

    def __init__(self, turn: RecordTurn, number: int) -> None:
        self._turn = turn
        self._number = number
        self._added: Any = self.FRESH()
        self.renew()

    def clear(self) -> None:
        """Removes everything."""
        self._added = self.FRESH()
        self._is_cleared = self.is_changed = True

    def store(self) -> None:
        """See ``SmallCell``."""
        turn, number = self._turn, self._number
        turn.keep()
        records, record = turn.records, turn.record
        if self._is_cleared:
            records.clear_items(record, number)
        if self._added:
            items = with_more(self._stored(), self._added)
            records.extend(record, number, items)
            if items[0] > MOST_ITEM_BYTES:
                turn.outgrow()
            self._added = self.FRESH()
        self.renew()

    def renew(self) -> None:
        """See ``SmallCell``."""
        self.is_changed = self._is_cleared = False
        self._left = MOST_ITEM_BYTES

    def _stored(self) -> Items:
        if self._is_cleared:
            return self.NOTHING
        items: Items | None = self._turn.record.values[self._number]
        return items or self.NOTHING

    def _is_more(self, item: bytes) -> None:
        """A string was added."""
        self.is_changed = True
        self._left -= len(item)
        if self._left < 0:
            self._turn.outgrow()  # what comes is not to be in memory at once
