"""One pass over RocksDB's rows that stops only at those of some prefixes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from timers_state.store.failure import failure

if TYPE_CHECKING:
    from pathlib import Path

_INCOMPLETE: Final = "Result incomplete"

RowsOf = Sequence[tuple[bytes, bytes]] | None
"""The rows of a prefix and their values; None if there are too many."""


class ManyGone(Exception):
    """So many removed rows lie beside a prefix that they are not to be passed over."""


class Prefixes:
    """Rows by prefix, in ascending order.

    The pass has no upper bound, so the end of a prefix is a row that has another one: an end of the
    iteration is looked at again, as ``Cursor`` does, and is rare. For that, RocksDB must be told to
    pass over few removed rows at a time: else it passes over all that lie behind each prefix.

    Args:
        directory: where the store is, for errors.
        native: RocksDB's iterator.
    """

    __slots__ = ("_directory", "_native", "_row")

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
