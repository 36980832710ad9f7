"""A pass over prefixes takes neither a failure nor an early end for the end of one."""

from __future__ import annotations

from pathlib import Path

import pytest
from test_cursor import FlakyIterator

from timers_state.errors import StoreCorrupt
from timers_state.store.cursor import ManyGone, Prefixes

ROWS = [b"a1", b"a2", b"b1", b"d1", b"d2"]


class FlakyPass(FlakyIterator):
    """As RocksDB's, which has no row where it is not valid."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.seeks = 0

    def seek(self, row):
        self.seeks += 1
        super().seek(row)

    def key(self):
        return super().key() if self.valid() else None


def rows_of(reading, prefix, most=9):
    found = reading.rows_of(prefix, most, 99)
    return found and [row for row, _ in found]


@pytest.mark.parametrize("early", [0, 1, 2, 3, 4])
def test_an_early_end_is_not_the_end_of_a_prefix(early):
    reading = Prefixes(Path("store"), FlakyPass(ROWS, early_ends=[early]))
    assert rows_of(reading, b"a") == [b"a1", b"a2"]
    assert rows_of(reading, b"b") == [b"b1"]
    assert rows_of(reading, b"c") == []
    assert rows_of(reading, b"d") == [b"d1", b"d2"]
    assert rows_of(reading, b"e") == []


def test_what_the_pass_has_come_to_is_not_sought():
    native = FlakyPass(ROWS)
    reading = Prefixes(Path("store"), native)
    for prefix in (b"a", b"b", b"c", b"d1"):
        rows_of(reading, prefix)
    assert native.seeks == 1


def test_a_prefix_with_too_many_rows_is_left():
    reading = Prefixes(Path("store"), FlakyPass(ROWS))
    assert rows_of(reading, b"a", most=1) is None
    assert rows_of(reading, b"b", most=1) == [b"b1"]
    assert reading.rows_of(b"d", 2, len(b"value of d1")) is None


def test_a_failure_names_the_store_and_what_was_removed_is_no_failure():
    native = FlakyPass(ROWS, error=Exception("Corruption: block checksum mismatch"))
    with pytest.raises(StoreCorrupt, match=r"some/store.*checksum"):
        rows_of(Prefixes(Path("some/store"), native), b"d")
    native = FlakyPass(ROWS, error=Exception("Result incomplete: Too many internal keys skipped."))
    reading = Prefixes(Path("some/store"), native)
    with pytest.raises(ManyGone):
        rows_of(reading, b"d")
    native.error = None
    assert rows_of(reading, b"e") == []
