"""Passes over RocksDB's rows, in a range or by prefix, that never take a failure for the end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from timers_state.errors import StoreClosed, failure

if TYPE_CHECKING:
    from pathlib import Path

    from timers_state.store.store import RowsOf

_INCOMPLETE: Final = "Result incomplete"


class Cursor:
    """A place in a consistent view of the rows.

    RocksDB keeps a pointer to the upper bound while it iterates, so the bytes are kept here. And
    at the end the position after the last row is sought again: rocksdict 0.3.29 was seen, once in
    some 200,000 scans, to end early with a good status; a second look costs a microsecond.
    """

    __slots__ = ("__weakref__", "_directory", "_done", "_last", "_native", "_upper")

    def __init__(self, directory: Path, native: tuple[Any, bytes], lower: bytes) -> None:
        self._directory = directory
        self._native, self._upper = native
        self._last: bytes | None = None
        self._done = False
        self._native.seek(lower)

    def release(self) -> None:
        """Lets go of RocksDB, whose lock would else outlive the store."""
        self._native = None

    def _look_again(self) -> Any:
        """The native iterator, at a row after all; else raises what ends the iteration."""
        if self._done:
            raise StopIteration
        native = self._native
        if native is None:
            message = f"the store {self._directory} was closed while it was read"
            raise StoreClosed(message)
        try:
            native.status()
            if self._last is not None:
                native.seek(self._last + b"\x00")
                if native.valid():
                    return native
                native.status()
        except Exception as error:
            raise failure(error, "read", self._directory) from error
        self._done = True
        self._native = None
        raise StopIteration


class ItemCursor(Cursor):
    """Rows with their values."""

    __slots__ = ()

    def __iter__(self) -> ItemCursor:
        return self

    def __next__(self) -> tuple[bytes, bytes]:
        native = self._native
        if native is None or not native.valid():
            native = self._look_again()
        row: bytes = native.key()
        value: bytes = native.value()
        native.next()
        self._last = row
        return row, value


class Rows(Cursor):
    """Rows without their values, which are not even copied."""

    __slots__ = ()

    def __iter__(self) -> Rows:
        return self

    def __next__(self) -> bytes:
        native = self._native
        if native is None or not native.valid():
            native = self._look_again()
        row: bytes = native.key()
        native.next()
        self._last = row
        return row


class ManyGone(Exception):
    """So many removed rows lie beside a prefix that they are not to be passed over."""


class Prefixes:
    """Rows by prefix, in ascending order.

    The pass has no upper bound, so the end of a prefix is a row that has another one: an end of the
    iteration is looked at again, as ``Cursor`` does, and is rare. For that, RocksDB must be told to
    pass over few removed rows at a time: else it passes over all that lie behind each prefix.
    """

    def __init__(self, directory: Path, native: Any) -> None:
        self._directory = directory
        self._native = native
        self._row: bytes | None = None

    def rows_of(self, prefix: bytes, most: int, most_bytes: int) -> RowsOf:
        """The rows that start with a prefix above those asked for before.

        Args:
            most: how many there may be.
            most_bytes: what their values may take.

        Raises:
            ManyGone: read this prefix in another way, then go on.
            StateError: the store is damaged, or cannot be read.
        """
        rows: list[tuple[bytes, bytes]] = []
        native, row = self._native, self._row
        self._row = None
        if row is None or row < prefix:
            row = self._sought(prefix)
        while row is not None and row.startswith(prefix):
            value = native.value()
            most_bytes -= len(value)
            if len(rows) == most or most_bytes < 0:
                return None
            rows.append((row, value))
            native.next()
            before, row = row, native.key()
            if row is None:
                self._check()
                row = self._sought(before + b"\x00")
        self._row = row
        return rows

    def _sought(self, start: bytes) -> bytes | None:
        """The first row at or behind ``start``; None if there is none, on a second look too."""
        for _ in range(2):
            self._native.seek(start)
            row: bytes | None = self._native.key()
            if row is not None:
                return row
            self._check()
        return None

    def _check(self) -> None:
        try:
            self._native.status()
        except Exception as error:
            if _INCOMPLETE in str(error):
                raise ManyGone from error
            raise failure(error, "read", self._directory) from error
