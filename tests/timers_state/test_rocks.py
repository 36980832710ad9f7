"""A store that is locked, damaged, foreign or too new says so and names its path."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys

import pytest

from timers_state import Overlay, RoundStore, open_read_only, open_store
from timers_state.errors import (
    FormatTooNew,
    NotAStore,
    StateError,
    StoreCorrupt,
    StoreFailed,
    StoreLocked,
)
from timers_state.store.rocks import process_memory
from timers_state.store.store import Batch

ROWS = 5000


def fill(directory):
    """A closed store whose rows fill many blocks of one file."""
    store = open_store(directory)
    batch = Batch(1)
    for number in range(ROWS):
        batch.put(b"\x01%08d" % number, os.urandom(40))
    store.write(batch)
    store.close()
    return directory


@pytest.fixture
def closed(tmp_path):
    return fill(tmp_path / "store")


def files(directory, pattern):
    return sorted((directory / "rocks").glob(pattern), key=lambda path: path.stat().st_size)


def read_everything(directory):
    store = open_store(directory)
    try:
        return sum(1 for _ in store.iterate(b"\x01", b"\x02"))
    finally:
        store.abandon()


def test_a_closed_store_has_everything(closed):
    assert read_everything(closed) == ROWS
    assert read_everything(closed) == ROWS


@pytest.mark.parametrize("remaining", [0, 1, 1000, -1])
def test_a_truncated_table_is_refused(closed, remaining):
    table = files(closed, "*.sst")[-1]
    os.truncate(table, table.stat().st_size - 1 if remaining < 0 else remaining)
    with pytest.raises(StoreCorrupt, match=str(closed)):
        open_store(closed)


def test_a_missing_table_is_refused(closed):
    files(closed, "*.sst")[-1].unlink()
    with pytest.raises(StoreCorrupt, match=str(closed)):
        open_store(closed)


def test_a_damaged_block_ends_no_iterator_early(closed):
    table = files(closed, "*.sst")[-1]
    content = bytearray(table.read_bytes())
    middle = len(content) // 2
    content[middle : middle + 8] = bytes(byte ^ 0xFF for byte in content[middle : middle + 8])
    table.write_bytes(content)
    store = open_store(closed)
    for iterator in (store.iterate(b"\x01", b"\x02"), store.iterate_rows(b"\x01", b"\x02")):
        seen = []
        with pytest.raises(StoreCorrupt, match=str(closed)):
            seen.extend(iterator)
        assert 0 < len(seen) < ROWS
    rows = [b"\x01%08d" % number for number in range(ROWS)]
    with pytest.raises(StoreCorrupt, match=str(closed)):
        store.multi_get(rows)
    with pytest.raises(StoreCorrupt, match=str(closed)):
        all(store.get(row) is not None for row in rows)
    store.abandon()


def test_a_list_of_files_cut_anywhere_is_refused(closed, tmp_path):
    (manifest,) = files(closed, "MANIFEST-*")
    size = manifest.stat().st_size
    for length in {0, 1, size // 3, size // 2, size - 20, size - 1}:
        copy = tmp_path / f"cut-{length}"
        shutil.copytree(closed, copy)
        os.truncate(copy / "rocks" / manifest.name, length)
        with pytest.raises(StoreCorrupt, match=f"{copy}.*truncated"):
            open_store(copy)
        assert files(copy, "*.sst"), "RocksDB must not have seen the damage: it deletes files"


def test_a_list_of_files_cut_after_a_crash_is_refused(tmp_path):
    directory = tmp_path / "store"
    store = open_store(directory)
    for number in range(3):
        batch = Batch(number + 1)
        batch.put(b"\x01%d" % number, b"value")
        store.write(batch)
        store.flush()
    copy = tmp_path / "copy"
    shutil.copytree(directory, copy)
    store.close()
    (manifest,) = files(copy, "MANIFEST-*")
    seal = (copy / "STORE").read_text()
    assert "sequence 3" in seal
    os.truncate(manifest, manifest.stat().st_size - 60)
    with pytest.raises(StoreCorrupt, match=str(copy)):
        open_store(copy)


def test_fewer_batches_than_were_flushed_are_refused(closed, tmp_path):
    other = fill(tmp_path / "other")
    store = open_store(other)
    store.write(Batch(2))
    store.close()
    shutil.rmtree(other / "rocks")
    shutil.copytree(closed / "rocks", other / "rocks")
    seal = (other / "STORE").read_text()
    (other / "STORE").write_text(seal.replace(files(closed, "MANIFEST-*")[0].name, "other"))
    with pytest.raises(StoreCorrupt, match=str(other)):
        open_store(other)


@pytest.mark.parametrize("content", [None, "", "MANIFEST-999999\n", "rubbish\n", "../STORE\n"])
def test_a_missing_or_damaged_current_file_is_refused(closed, content):
    current = closed / "rocks" / "CURRENT"
    current.unlink()
    if content is not None:
        current.write_text(content)
    with pytest.raises(StoreCorrupt, match=str(closed)):
        open_store(closed)


def test_a_lost_database_is_refused(closed):
    shutil.rmtree(closed / "rocks")
    with pytest.raises(StoreCorrupt, match=str(closed)):
        open_store(closed)


@pytest.mark.parametrize("keep", range(0, 70, 5))
def test_a_cut_store_file_is_refused(closed, keep):
    seal = (closed / "STORE").read_text()
    (closed / "STORE").write_text(seal[:keep])
    with pytest.raises(StoreCorrupt, match=str(closed / "STORE")):
        open_store(closed)


@pytest.mark.parametrize(("old", "new"), [("sequence 1", "sequence 0"), ("format 1", "format x")])
def test_a_changed_store_file_is_refused(closed, old, new):
    seal = (closed / "STORE").read_text()
    assert old in seal
    (closed / "STORE").write_text(seal.replace(old, new))
    with pytest.raises(StoreCorrupt, match=str(closed / "STORE")):
        open_store(closed)


def test_a_lost_store_file_is_refused(closed):
    (closed / "STORE").unlink()
    with pytest.raises(NotAStore, match=f"{closed}.*rocks"):
        open_store(closed)


def test_a_newer_format_is_refused_unread(closed):
    (closed / "STORE").write_text("timers_state store\nformat 2\nwhatever a newer release says\n")
    before = {path: path.stat().st_mtime_ns for path in (closed / "rocks").iterdir()}
    with pytest.raises(FormatTooNew, match=f"{closed}.*format 2"):
        open_store(closed)
    with pytest.raises(FormatTooNew):
        open_read_only(closed)
    assert {path: path.stat().st_mtime_ns for path in (closed / "rocks").iterdir()} == before


def test_a_directory_of_other_things_is_refused_and_left_alone(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    for opened in (open_store, open_read_only, RoundStore):
        with pytest.raises(NotAStore, match=str(tmp_path)):
            opened(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_a_file_in_the_place_of_the_directory_is_refused(tmp_path):
    path = tmp_path / "file"
    path.write_text("mine")
    with pytest.raises(StateError, match=str(path)):
        open_store(path)


def test_a_directory_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StateError, match="file/below"):
        open_store(tmp_path / "file" / "below")


def test_reading_only_needs_a_store(tmp_path):
    with pytest.raises(NotAStore, match=str(tmp_path)):
        open_read_only(tmp_path)


def test_a_second_opening_in_the_process_is_refused(tmp_path):
    store = open_store(tmp_path / "s")
    with pytest.raises(StoreLocked, match=str(tmp_path / "s")):
        open_store(tmp_path / "s")
    store.close()
    open_store(tmp_path / "s").close()


OTHER_PROCESS = """
import pathlib, sys
from timers_state import open_store
from timers_state.store.rocks import process_memory
from timers_state.store.store import Batch
store = open_store(pathlib.Path(sys.argv[1]))
for number in range(1, 4):
    batch = Batch(number)
    batch.put(b"\\x01row", b"%d" % number)
    store.write(batch)
    if number == 2:
        store.flush()
print("ready", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def other_process(tmp_path):
    """A process that has a store open with three batches, of which two were flushed."""
    process = subprocess.Popen(
        [sys.executable, "-c", OTHER_PROCESS, str(tmp_path / "s")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    assert process.stdout.readline() == b"ready\n"
    yield process
    process.kill()
    process.wait()
    process.stdin.close()
    process.stdout.close()


def test_a_store_open_in_another_process_is_refused_but_can_be_inspected(tmp_path, other_process):
    with pytest.raises(StoreLocked, match=str(tmp_path / "s")):
        open_store(tmp_path / "s")
    store = open_read_only(tmp_path / "s")
    assert (store.sequence, store.get(b"\x01row")) == (2, b"2")
    with pytest.raises(StoreFailed, match="reading only"):
        store.write(Batch(3))
    store.close()
    assert other_process.poll() is None


def test_a_killed_process_leaves_whole_batches_and_says_how_many(tmp_path, other_process):
    os.kill(other_process.pid, signal.SIGKILL)
    other_process.wait()
    store = open_store(tmp_path / "s")
    assert store.sequence in {2, 3}
    assert store.get(b"\x01row") == b"%d" % store.sequence
    store.close()


def test_a_store_can_be_closed_with_iterators_open(tmp_path):
    store = open_store(tmp_path / "s")
    store.write(Batch(1))
    running = store.iterate(b"\x00", b"\xff")
    next(running)
    store.close()
    open_store(tmp_path / "s").close()
    del running


def test_the_stores_of_a_process_share_one_memory_and_a_fork_has_its_own(monkeypatch):
    memory = process_memory()
    assert process_memory() is memory
    monkeypatch.setattr(os, "getpid", lambda: -1)
    assert process_memory() is not memory


def test_a_round_store_makes_no_file_until_it_is_written(tmp_path):
    store = RoundStore(tmp_path / "s")
    assert store.get(b"\x01") is None
    assert store.multi_get([b"\x01", b"\x02"]) == [None, None]
    assert list(store.iterate(b"\x00", b"\xff")) == []
    assert not (tmp_path / "s").exists()
    store.write(Batch(1))
    assert (tmp_path / "s").exists()
    store.close()
    assert not (tmp_path / "s").exists()


def test_a_store_that_cannot_write_says_so_and_the_overlay_is_useless(tmp_path):
    open_store(tmp_path / "s").close()
    overlay = Overlay(open_read_only(tmp_path / "s"), 1 << 20)
    value = overlay.scope(1, b"k").value(b"v")
    value.set(b"1")
    with pytest.raises(StoreFailed, match="reading only"):
        overlay.flush()
    with pytest.raises(StateError):
        value.set(b"2")
    overlay.close()
