"""A store of an older format is brought to this release's: as a whole, or not at all."""

from __future__ import annotations

import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from timers_state import RoundStore, open_read_only, open_store
from timers_state.errors import FormatTooOld
from timers_state.store.formats import FORMAT, read_seal, steps_from, write_seal
from timers_state.store.store import Batch

# Of cells; what formats before the first one had there is made up here.
BEGIN, END = b"\x01", b"\x02"
ROWS = {b"\x01%03d" % number: b"old %d" % number for number in range(100)}
RENEWED = {row: value.replace(b"old", b"new") for row, value in ROWS.items()}


def renew(store):
    """Rewrites every row, in two batches."""
    rows = list(store.iterate(BEGIN, END))
    for half in (rows[:50], rows[50:]):
        batch = Batch(store.sequence + 1)
        for row, value in half:
            batch.put(row, value.replace(b"old", b"new"))
        store.write(batch)


def aged(directory, number=FORMAT - 1):
    """A closed store that says of itself that it is of an older format."""
    store = open_store(directory)
    batch = Batch(1)
    for row, value in ROWS.items():
        batch.put(row, value)
    store.write(batch)
    store.close()
    write_seal(directory, replace(read_seal(directory), format=number))
    return directory


@pytest.fixture
def old(tmp_path):
    return aged(tmp_path / "store")


def content(store):
    try:
        return dict(store.iterate(BEGIN, END))
    finally:
        store.close()


def test_it_is_migrated_once_when_it_is_opened(old):
    assert content(open_store(old, migrations={FORMAT - 1: renew})) == RENEWED
    assert read_seal(old).format == FORMAT
    assert content(open_store(old)) == RENEWED
    assert content(open_read_only(old)) == RENEWED


def test_steps_are_taken_in_their_order_and_none_may_be_missing(tmp_path):
    steps = {number: object() for number in (FORMAT - 1, FORMAT - 3, FORMAT - 2)}
    taken = tuple(steps[number] for number in sorted(steps))
    assert steps_from(FORMAT - 3, steps, tmp_path) == taken
    assert steps_from(FORMAT - 1, steps, tmp_path) == taken[2:]
    assert steps_from(FORMAT, {}, tmp_path) == ()
    del steps[FORMAT - 2]
    with pytest.raises(FormatTooOld, match=f"nothing leads from format {FORMAT - 2} "):
        steps_from(FORMAT - 3, steps, tmp_path)


def test_a_format_that_nothing_leads_from_is_refused_and_left_alone(old):
    for opened in (open_store, RoundStore.take_up):
        with pytest.raises(FormatTooOld, match=f"{old} has format {FORMAT - 1}"):
            opened(old)
    assert read_seal(old).format == FORMAT - 1
    assert content(open_store(old, migrations={FORMAT - 1: lambda _: None})) == ROWS


def test_who_only_reads_changes_nothing_and_is_told_so(old):
    with pytest.raises(FormatTooOld, match=f"{old} .*only to be read"):
        open_read_only(old)


def test_a_migration_that_fails_half_way_leaves_the_store_as_it_was(old):
    def fail(store):
        renew(store)
        store.flush()
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        open_store(old, migrations={FORMAT - 1: fail})
    assert read_seal(old).format == FORMAT - 1
    assert content(open_store(old, migrations={FORMAT - 1: lambda _: None})) == ROWS


_KILLED = """
import os, signal, sys
from pathlib import Path
sys.path.insert(0, {tests!r})
from test_migrations import FORMAT, renew
from timers_state import open_store

def killed(store):
    renew(store)
    store.flush()
    os.kill(os.getpid(), signal.SIGKILL)

open_store(Path({directory!r}), migrations={{FORMAT - 1: killed}})
"""


def test_a_process_that_is_killed_in_a_migration_leaves_the_store_as_it_was(old):
    program = _KILLED.format(tests=str(Path(__file__).parent), directory=str(old))
    done = subprocess.run([sys.executable, "-c", program], check=False)
    assert done.returncode == -signal.SIGKILL
    assert content(open_store(old, migrations={FORMAT - 1: renew})) == RENEWED
    assert read_seal(old).format == FORMAT
