"""Iterators over a range of RocksDB's rows that never take a failure for the end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from timers_state.errors import StoreClosed
from timers_state.store.failure import failure

if TYPE_CHECKING:
    from pathlib import Path


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
