"""What a record needs of a kind of state that has many items, and what that needs of the record.

A record keeps a tuple for each of these states. The first field of the tuple is what the items
take in memory, in bytes. The tuple is replaced when the key's turn ends. It is never changed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
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


class SmallCell(Protocol):
    """The items of one state, of the record that has its turn.

    A cell is made once for each state of a DoFn. ``renew`` is called for each record. What the
    turn changes stays in the cell until ``store``.
    """

    __slots__ = ()

    is_changed: bool
    """Whether ``store`` has something to do."""

    def __init__(self, turn: RecordTurn, number: int) -> None:
        """A cell for the state with this number in the layout."""

    def renew(self) -> None:
        """Another record has its turn."""

    def store(self) -> None:
        """Brings the record up to date."""

    @staticmethod
    def with_row(value: Any, suffix: bytes, data: bytes) -> Any:
        """What a record has after one more row of the store was read.

        Args:
            value: what the rows before have; None: there are none. It may be changed.
        """

    @staticmethod
    def write(prefix: bytes, before: Any, after: Any, batch: Batch, store: Store) -> None:
        """Adds to ``batch`` the change of ``before``, which ``store`` has, into ``after``."""

    @staticmethod
    def tell(cell: Any, before: Any, after: Any) -> None:
        """Makes the same change to a scope's cell."""
