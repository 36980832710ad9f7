"""One value: a single row."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from typing_extensions import override

from timers_state.cells.cell import (
    CELL_BYTES,
    NOTHING,
    SAME,
    UNWRITTEN,
    Account,
    Cell,
    Difference,
    Unread,
)
from timers_state.keys import Kind

if TYPE_CHECKING:
    from timers_state.cells.cell import ValueImage
    from timers_state.store.store import Batch, Store

UNREAD: Final = Unread.UNREAD


class Value(Cell):
    """A cell that holds nothing or one string of bytes.

    It asks for room before a change too: a scope that rests then keeps aside what was committed.
    """

    KIND: ClassVar[Kind] = Kind.VALUE
    __slots__ = ("_changed", "_size", "_value")

    def __init__(self, scope: Account, tag: bytes, window: bytes, stored: bool) -> None:
        super().__init__(scope, tag, window, stored)
        self._value: bytes | Unread | None = UNREAD if stored else None
        self._size = 0
        self._changed = False

    def get(self) -> bytes | None:
        """The value, None if there is none."""
        value = self._value
        if value is UNREAD:
            return self._read()
        return value

    def set(self, value: bytes) -> None:
        """Replaces the value."""
        scope = self._scope
        if scope.room < 0:
            scope.lease()
        size = len(value)
        scope.room -= size - self._size
        self._size = size
        self._value = value
        self._changed = True
        if scope.room < 0:
            scope.lease()

    def clear(self) -> None:
        """Removes the value."""
        scope = self._scope
        if scope.room < 0:
            scope.lease()
        scope.room += self._size
        self._size = 0
        self._value = None
        self._changed = True
        if scope.room < 0:
            scope.lease()

    @override
    def difference(self) -> Difference:
        if self._value is None and not self._base:
            return NOTHING
        return UNWRITTEN if self._changed else SAME

    def image(self) -> ValueImage | None:
        """The content, to be given to ``restore`` of another cell; None if the store has it."""
        if not self._changed:
            return None
        value = self._value
        return type(self), self.window, self.tag, None if value is UNREAD else value, self._base

    def restore(self, value: bytes | None) -> None:
        """Takes content over that is not in the store; for a new cell."""
        self._value = value
        self._size = 0 if value is None else len(value)
        self._changed = True

    @override
    def disown(self) -> None:
        super().disown()
        self._value = UNREAD

    @override
    def spill(self, batch: Batch, store: Store) -> None:
        self.settle(batch, store)
        self._value = UNREAD if self._base else None
        self._size = 0

    @override
    def settle(self, batch: Batch, store: Store) -> int:
        if self._changed:
            value = self._value
            if value is None:
                if self._base:
                    batch.delete(self._prefix())
                    self._base = False
            elif value is not UNREAD:
                batch.put(self._prefix(), value)
                self._base = True
            self._changed = False
        return CELL_BYTES + self._size if self._base else 0

    def _read(self) -> bytes | None:
        scope = self._scope
        value = scope.reach().get(self._prefix())
        self._value = value
        self._size = 0 if value is None else len(value)
        scope.room -= self._size
        if scope.room < 0:
            scope.lease()
        return value


class Combining(Value):
    """A cell that holds nothing or one encoded accumulator; merging is the caller's business."""

    KIND: ClassVar[Kind] = Kind.COMBINING
    __slots__ = ()
