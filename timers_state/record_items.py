"""What a record has of a bag: strings, in a tuple that is replaced whenever some are added.

To add costs what is added: most strings are in a part that stays as it is, the last ones beside it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from timers_state.cells.cell import ITEM_BYTES

if TYPE_CHECKING:
    from collections.abc import Collection

# So many, and what one turn adds to them, are copied when the next ones come.
_FEW: Final = 16

Items = tuple[int, tuple[bytes, ...], tuple[bytes, ...]]
"""What all strings take in memory, the first ones, and the last ones."""

NO_ITEMS: Final[Items] = (0, (), ())


def with_more(items: Items | None, added: Collection[bytes]) -> Items:
    """The same and what is added, at the end; ``items`` stays as it is."""
    size, first, last = items or NO_ITEMS
    size += sum(map(len, added)) + ITEM_BYTES * len(added)
    if len(last) < _FEW:
        return size, first, (*last, *added)
    return size, (*first, *last), tuple(added)


def all_of(items: Items | None) -> tuple[bytes, ...]:
    """All strings, in the order in which they were added."""
    return () if items is None else (*items[1], *items[2])


def added_since(before: Items | None, after: Items | None) -> tuple[bytes, ...] | None:
    """What was added to ``before``; None if it is not the beginning of ``after``."""
    old, new = all_of(before), all_of(after)
    return new[len(old) :] if new[: len(old)] == old else None
