"""An iterator over RocksDB takes neither a failure nor an early end for the end."""

from __future__ import annotations

from pathlib import Path

import pytest

from timers_state.errors import StoreClosed, StoreCorrupt
from timers_state.store.cursor import ItemCursor, Rows


class FlakyIterator:
    """RocksDB's iterator over some rows, which becomes invalid at certain rows, once each."""

    def __init__(self, rows, early_ends=(), error=None):
        self.rows = rows
        self.early_ends = set(early_ends)
        self.error = error
        self.at = 0

    def seek(self, row):
        self.at = sum(1 for other in self.rows if other < row)

    def valid(self):
        if self.at in self.early_ends:
            self.early_ends.remove(self.at)
            return False
        return self.at < len(self.rows)

    def status(self):
        if self.error and self.at >= len(self.rows):
            raise self.error

    def key(self):
        return self.rows[self.at]

    def value(self):
        return b"value of " + self.rows[self.at]

    def next(self):
        self.at += 1


ROWS = [b"a", b"b", b"c"]


@pytest.mark.parametrize("early", [1, 2])
def test_an_early_end_is_not_the_end(early):
    native = FlakyIterator(ROWS, early_ends=[early])
    assert list(Rows(Path("store"), (native, b"z"), b"a")) == ROWS
    native = FlakyIterator(ROWS, early_ends=[early])
    assert [row for row, _ in ItemCursor(Path("store"), (native, b"z"), b"a")] == ROWS


def test_a_failure_is_not_the_end():
    native = FlakyIterator(ROWS, error=Exception("Corruption: block checksum mismatch"))
    rows = Rows(Path("some/store"), (native, b"z"), b"a")
    assert [next(rows) for _ in ROWS] == ROWS
    with pytest.raises(StoreCorrupt, match=r"some/store.*checksum"):
        next(rows)


def test_an_iterator_that_ended_stays_ended():
    rows = Rows(Path("store"), (FlakyIterator(ROWS), b"z"), b"b")
    assert list(rows) == [b"b", b"c"]
    assert list(rows) == []
    rows.release()
    assert list(rows) == []


def test_an_iterator_whose_store_was_closed_says_so():
    rows = Rows(Path("some/store"), (FlakyIterator(ROWS), b"z"), b"a")
    next(rows)
    rows.release()
    with pytest.raises(StoreClosed, match="some/store"):
        next(rows)
