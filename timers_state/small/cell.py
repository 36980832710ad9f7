"""What a record needs of a kind of state that has many items, and what that needs of the record.

A record keeps a tuple for each of these states. The first field of the tuple is what the items
take in memory, in bytes. The tuple is replaced when the key's turn ends. It is never changed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from timers_state.small.record import MOST_ITEM_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from timers_state.small.record import Copied, Record
    from timers_state.store.store import Batch, Store


class ItemChanges(Protocol):
    """Changes the items of records; see ``Records``."""

    def replace_items(self, record: Record, number: int, items: Copied | None) -> None:
        """Replaces the items of a state; None: there are none."""


class RecordTurn(Protocol):
    """Says which record has its turn."""

    @property
    def record(self) -> Record:
        """The record."""

    @property
    def records(self) -> ItemChanges:
        """What changes the record."""

    def keep(self) -> None:
        """The turn is about to store something. The window has to expire."""

    def outgrow(self) -> None:
        """The key is too large for a record. A scope takes it over when the turn ends."""


class SmallCell(ABC):
    """The items of one state, of the record that has its turn.

    A cell is made once for each state of a DoFn. ``renew`` is called for each record. The first
    change of a turn copies what the record has. The copy, ``_items``, takes ``_size`` bytes in
    memory. It stays in the cell until ``store``, and is None as long as nothing was changed.

    Args:
        number: which state of the layout it is.

    Attributes:
        FRESH: makes a copy that has no items.
        is_changed: whether ``store`` has something to do.
    """

    FRESH: ClassVar[type[Any]]

    def __init__(self, turn: RecordTurn, number: int) -> None:
        self._turn = turn
        self._number = number
        self._items: Any = None
        self.renew()

    def clear(self) -> None:
        """Removes everything."""
        self._items = self.FRESH()
        self._size = 0
        self.is_changed = True

    def store(self) -> None:
        """Brings the record up to date."""
        turn = self._turn
        turn.keep()
        value = (self._size, self._items) if self._items else None
        turn.records.replace_items(turn.record, self._number, value)
        if self._size > MOST_ITEM_BYTES:
            turn.outgrow()
        self.is_changed = False
        self._items = None

    def renew(self) -> None:
        """Another record has its turn."""
        self.is_changed = False
        self._items = None
        self._size = 0

    def _now(self) -> Any:
        """What is there now, to be read only."""
        if self._items is not None:
            return self._items
        value: Copied | None = self._turn.record.values[self._number]
        return self.FRESH() if value is None else value[1]

    def _own(self) -> Any:
        """What is there now, to be changed."""
        items = self._items
        if items is None:
            value: Copied | None = self._turn.record.values[self._number]
            self._size, items = (0, self.FRESH()) if value is None else (value[0], value[1].copy())
            self._items = items
            self.is_changed = True
        return items

    def _grow(self, size: int) -> None:
        """Items take more memory by so many bytes, or less if ``size`` is negative."""
        self._size += size
        if self._size > MOST_ITEM_BYTES:
            self._turn.outgrow()  # what comes is not to be in memory at once

    @staticmethod
    @abstractmethod
    def with_row(value: Any, suffix: bytes, data: bytes) -> Any:
        """What a record has after one more row of the store was read.

        Args:
            value: what the rows before have; None: there are none. It may be changed.
        """

    @staticmethod
    @abstractmethod
    def write(prefix: bytes, before: Any, after: Any, batch: Batch, store: Store) -> None:
        """Adds to ``batch`` the change of ``before``, which ``store`` has, into ``after``."""

    @staticmethod
    @abstractmethod
    def tell(cell: Any, before: Any, after: Any) -> None:
        """Makes the same change to a scope's cell."""


def appended(
    old: Mapping[Any, Any], new: Mapping[Any, Any], nothing: Any
) -> Iterator[tuple[Any, bool, Any]]:
    """Keys whose items differ; whether the items before have to go; the items to append.

    Args:
        nothing: the items of a key that is not there.
    """
    for key in {**old, **new}:
        there, wanted = old.get(key, nothing), new.get(key, nothing)
        if there != wanted:
            is_anew = wanted[: len(there)] != there
            yield key, is_anew, wanted if is_anew else wanted[len(there) :]
