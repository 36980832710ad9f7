"""A store that grows does not get slower: what is read for a key does not grow with the files."""

from __future__ import annotations

from pathlib import Path

import pytest

from timers_state import Domain, Overlay, RoundStore

IO = Path("/proc/self/io")
KEYS, PER_ROUND = 600_000, 100_000


@pytest.mark.slow
@pytest.mark.skipif(not IO.exists(), reason="asks Linux how much was read")
def test_a_new_key_costs_as_much_when_there_are_many(tmp_path):
    overlay = Overlay(RoundStore(tmp_path / "store"), 64 << 20)
    before = bytes_read()
    for first in range(0, KEYS, PER_ROUND):
        for number in range(first, first + PER_ROUND):
            scope = overlay.scope(7, b"key-%010d" % number)
            scope.value(b"v").set(b"%020d" % number)
            scope.timers(Domain.EVENT).set(number, b"t")
        overlay.prepare()
        overlay.commit()
    # Indexes and filters of whole files would make it a megabyte for each key.
    assert (bytes_read() - before) / KEYS < 10_000
    overlay.close()


def bytes_read() -> int:
    return int(IO.read_text().split()[1])
