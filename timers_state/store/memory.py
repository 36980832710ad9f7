"""A store in memory with the laws of the store on disk: the model that tests compare with."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, TypeVar

from typing_extensions import override

from timers_state.errors import StoreClosed, StoreFailed
from timers_state.keys import SEQUENCE_ROW, encode_sequence, prefix_end
from timers_state.store.store import (
    DELETE,
    DELETE_RANGE,
    PUT,
    Batch,
    Store,
    check_mark,
    check_sequence,
    rows_within,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from timers_state.store.store import RowsOf

T = TypeVar("T")


class MemoryStore(Store):
    """A ``Store`` that forgets everything when it is closed. Iterators copy their range."""

    def __init__(self) -> None:
        self._rows: dict[bytes, bytes] = {}
        self._order: list[bytes] | None = []
        self._sequence = 0
        self._closed = False
        self._undo: tuple[dict[bytes, bytes], int] | None = None
        self._age = 0

    @property
    @override
    def sequence(self) -> int:
        return self._sequence

    @override
    def get(self, row: bytes) -> bytes | None:
        self._check_open()
        return self._rows.get(row)

    @override
    def multi_get(self, rows: Sequence[bytes]) -> list[bytes | None]:
        self._check_open()
        return [self._rows.get(row) for row in rows]

    @override
    def iterate(self, lower: bytes, upper: bytes) -> Iterator[tuple[bytes, bytes]]:
        items = [(row, self._rows[row]) for row in self._range(lower, upper)]
        return self._while_open(items, self._age)

    @override
    def iterate_rows(self, lower: bytes, upper: bytes) -> Iterator[bytes]:
        return self._while_open(self._range(lower, upper), self._age)

    @override
    def read_prefixes(self, prefixes: Sequence[bytes], most: int, most_bytes: int) -> list[RowsOf]:
        return [
            rows_within(self.iterate(prefix, prefix_end(prefix)), most, most_bytes)
            for prefix in prefixes
        ]

    @override
    def write(self, batch: Batch) -> None:
        self._check_open()
        check_sequence(batch, self._sequence)
        for change, row, value in batch.changes:
            if change == PUT:
                if row not in self._rows:
                    self._order = None
                self._rows[row] = value
            elif change == DELETE:
                if self._rows.pop(row, None) is not None:
                    self._order = None
            elif change == DELETE_RANGE:
                for doomed in self._range(row, value):
                    del self._rows[doomed]
                self._order = None
        self._sequence = batch.sequence
        if SEQUENCE_ROW not in self._rows:
            self._order = None
        self._rows[SEQUENCE_ROW] = encode_sequence(batch.sequence)

    @override
    def mark(self) -> None:
        self._check_open()
        check_mark(self._undo is not None, expected=False)
        self._undo = (dict(self._rows), self._sequence)

    @override
    def unmark(self) -> None:
        self._check_open()
        self._undo = None

    @override
    def undo(self) -> None:
        self._check_open()
        check_mark(self._undo is not None, expected=True)
        if self._undo is not None:
            self._rows, self._sequence = self._undo
        self._undo = None
        self._order = None
        self._age += 1

    def snapshot(self, directory: Path) -> None:
        """Raises ``StoreFailed``: there are no files."""
        self._check_open()
        message = f"a store in memory has no files that {directory} could share"
        raise StoreFailed(message)

    def flush(self) -> None:
        """Nothing: there is no disk."""
        self._check_open()

    def close(self) -> None:
        """See ``Store``; the rows are gone."""
        self._closed = True
        self._rows = {}
        self._order = []
        self._undo = None

    def _range(self, lower: bytes, upper: bytes) -> list[bytes]:
        self._check_open()
        if self._order is None:
            self._order = sorted(self._rows)
        return self._order[bisect_left(self._order, lower) : bisect_left(self._order, upper)]

    def _while_open(self, rows: list[T], age: int) -> Iterator[T]:
        for row in rows:
            self._check_open()
            if age != self._age:
                message = "this store in memory went back to an undo point while it was read"
                raise StoreClosed(message)
            yield row

    def _check_open(self) -> None:
        if self._closed:
            message = "this store in memory was closed"
            raise StoreClosed(message)
