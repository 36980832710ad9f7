"""What all kinds with many items share: the first change of a turn copies what the record has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from typing_extensions import override

from timers_state.small.cell import SmallCell
from timers_state.small.record import MOST_ITEM_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from timers_state.small.cell import RecordTurn
    from timers_state.small.record import Copied


class SmallCopied(SmallCell):
    """The items are copied once in a turn, changed there, and given to the record at its end.

    ``_items`` is None as long as the turn has not changed anything, and ``_size`` is what the
    items take in memory.
    """

    __slots__ = ("_items", "_number", "_size", "_turn", "is_changed")
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

    @override
    def store(self) -> None:
        turn = self._turn
        turn.keep()
        value = (self._size, self._items) if self._items else None
        turn.records.replace_items(turn.record, self._number, value)
        if self._size > MOST_ITEM_BYTES:
            turn.outgrow()
        self.is_changed = False
        self._items = None

    @override
    def renew(self) -> None:
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
