"""What all kinds of cell share: where they belong, and what they know of their rows."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar, Final, NoReturn, Protocol, TypeVar

from timers_state.errors import StaleScope
from timers_state.keys import Kind, cell_prefix, prefix_end
from timers_state.store.store import delete_rows

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from timers_state.store.store import Batch, Store

T = TypeVar("T")

ITEM_BYTES: Final = 56
"""What a string of bytes in a list costs beside its content (CPython, 64 bit)."""

ENTRY_BYTES: Final = 160
"""What an entry of a dict costs beside the content of its key and value."""

CELL_BYTES: Final = 320
"""What a cell without content costs."""

GONE_ROOM: Final = -(1 << 62)
"""Room that no refund makes positive: every change then asks for some, and is refused."""

REST_ROOM: Final = -(1 << 61)
"""The same for what rests: the first change asks for room, which wakes the scope."""


class Unread(Enum):
    """Stands for content that is in the store and was not looked at yet."""

    UNREAD = 0


class Difference(Enum):
    """What a cell has that the store has not got."""

    NOTHING = 0
    """There is nothing, here and in the store."""
    SAME = 1
    """The store has the same."""
    UNWRITTEN = 2
    """Something that may stay unwritten: ``image`` has it."""
    TO_WRITE = 3
    """Something that has to be written, or that is not known."""


NOTHING: Final = Difference.NOTHING
SAME: Final = Difference.SAME
UNWRITTEN: Final = Difference.UNWRITTEN
TO_WRITE: Final = Difference.TO_WRITE

ValueImage = tuple[type["Cell"], bytes, bytes, bytes | None, bool]
"""Kind of a single value, window, tag, content, and whether the store has a row."""


class Account(Protocol):
    """What a cell needs of the scope that it belongs to.

    ``room`` is how many bytes the scope may still put into memory. A change subtracts what it adds
    and, **always last**, calls ``lease`` if room is negative; ``lease`` may write everything out.
    """

    room: int

    def lease(self) -> None:
        """Finds room, if need be by writing everything out, and makes sure to be written out."""

    def reach(self) -> Store:
        """The store; raises ``StaleScope`` if the scope is gone."""

    def owner(self) -> bytes:
        """Prefix of the rows of cells of this key."""


class _Gone:
    """Stands in for what must not be used anymore: every call is an error."""

    def __getattr__(self, name: str) -> NoReturn:
        message = (
            "the scope or window that this belongs to was forgotten, or its overlay closed: "
            "ask the overlay for the scope again"
        )
        raise StaleScope(message)


GONE_SCOPE: Final[Any] = _Gone()
"""The scope of a cell that is gone."""
GONE_SCOPE.room = GONE_ROOM

GONE_OWNER: Final[Any] = _Gone()
"""What owns a scope that is gone."""


class Cell:
    """State of one kind under one (state id, key, window, tag).

    ``_base`` says that rows in the store may count; ``_erase`` that rows in the store are to go
    when the cell is next written out. Both are False for what was never written out, and then no
    call of a cell touches the store.
    """

    KIND: ClassVar[Kind]
    __slots__ = ("__weakref__", "_base", "_erase", "_scope", "tag", "window")

    def __init__(self, scope: Account, tag: bytes, window: bytes, stored: bool) -> None:
        self._scope = scope
        self.tag = tag
        self.window = window
        self._base = stored
        self._erase = False

    def spill(self, batch: Batch, store: Store) -> None:
        """Adds to ``batch`` what differs from ``store``, and lets go of the content in memory.

        ``batch`` will be written before anything else is asked of this cell.
        """
        raise NotImplementedError

    def clear(self) -> None:
        """Removes the content, in memory and in the store."""
        raise NotImplementedError

    def disown(self) -> None:
        """Makes every further use an error, and gives the room of the content back."""
        self._base = False
        self.clear()
        self._base = True
        self._scope = GONE_SCOPE

    def settle(self, batch: Batch, store: Store) -> int:
        """As ``spill``, but may keep content that the next round is likely to read.

        Returns:
            What the cell costs in memory from now on; 0 if it is as good as a new one.
        """
        self.spill(batch, store)
        return CELL_BYTES if self._base else 0

    def difference(self) -> Difference:
        """How the content differs from the store's, at the end of a round."""
        return TO_WRITE

    def image(self) -> ValueImage | None:
        """What may stay unwritten after a round, if there is something; see ``Value``."""
        return None

    def _prefix(self) -> bytes:
        return cell_prefix(self._scope.owner(), self.window, self.tag, self.KIND)

    def _erased(self, batch: Batch, store: Store) -> bytes:
        """Prefix of the rows; those that are to go are removed by ``batch``."""
        prefix = self._prefix()
        if self._erase:
            delete_rows(store, batch, prefix, prefix_end(prefix))
            self._erase = False
        return prefix

    def _drop(self) -> None:
        """Forgets the rows in the store; they are removed when the cell is next written out."""
        if self._base:
            self._base = False
            self._erase = True


def merged(
    rows: Iterable[tuple[bytes, T]], held: Iterable[tuple[bytes, T | None]]
) -> Iterator[tuple[bytes, T]]:
    """What is in the store and what is in memory, both sorted, as one sorted sequence.

    Of equal keys the held one counts; a held None removes the entry.
    """
    changes = iter(held)
    change = next(changes, None)
    for row in rows:
        while change is not None and change[0] < row[0]:
            if change[1] is not None:
                yield change[0], change[1]
            change = next(changes, None)
        if change is not None and change[0] == row[0]:
            continue
        yield row
    while change is not None:
        if change[1] is not None:
            yield change[0], change[1]
        change = next(changes, None)
