"""What was committed becomes a store of its own, and nothing that comes later touches it."""

from __future__ import annotations

from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from timers_state import (
    Domain,
    Layout,
    MemoryStore,
    Overlay,
    RocksStore,
    RoundStore,
    open_store,
)
from timers_state.cells.value import Value
from timers_state.errors import NotAStore, RoundPrepared, StoreFailed
from timers_state.store import rocks
from timers_state.store.store import Batch

STATE = 3


def content(store):
    return list(store.iterate(b"", b"\xff"))


def read(directory):
    store = open_store(directory)
    try:
        return content(store)
    finally:
        store.abandon()


@pytest.fixture
def overlay(tmp_path):
    with Overlay(RoundStore(tmp_path / "live"), 1 << 20) as overlay:
        yield overlay


def commit(overlay, changes):
    for key, value in changes.items():
        scope = overlay.scope(STATE, key)
        if value is None:
            overlay.forget(STATE, key)
        else:
            scope.value(b"tag").set(value)
            scope.timers(Domain.EVENT).set(len(value), b"family")
    overlay.prepare()
    overlay.commit()


def held(overlay, keys):
    return {key: overlay.scope(STATE, key).value(b"tag").get() for key in keys}


def test_a_snapshot_has_what_was_committed_and_goes_on_as_a_store_of_its_own(overlay, tmp_path):
    commit(overlay, {b"a": b"1", b"b": b"22"})
    overlay.snapshot(tmp_path / "copy")
    commit(overlay, {b"a": b"333", b"c": b"4"})
    with Overlay(RoundStore.take_up(tmp_path / "copy"), 1 << 20) as copy:
        assert held(copy, (b"a", b"b", b"c")) == {b"a": b"1", b"b": b"22", b"c": None}
        assert copy.next_due(STATE, Domain.EVENT, 9) == b"a"
        copy.rollback()
        commit(copy, {b"b": b"5"})
    assert not (tmp_path / "copy").exists()
    assert held(overlay, (b"a", b"b")) == {b"a": b"333", b"b": b"22"}


def test_tables_are_shared_not_copied(overlay, tmp_path):
    commit(overlay, {b"%d" % number: b"x" for number in range(100)})
    overlay.snapshot(tmp_path / "copy")
    tables = list((tmp_path / "copy").rglob("*.sst"))
    assert tables
    assert all(table.stat().st_nlink > 1 for table in tables)


def test_what_rocksdb_writes_down_does_not_grow_with_the_number_of_snapshots(tmp_path, monkeypatch):
    monkeypatch.setattr(rocks, "_MANIFEST_BYTES", 2048)
    monkeypatch.setattr(rocks, "_LOG_BYTES", 32 << 10)
    with closing(open_store(tmp_path / "live", rocks.RocksMemory())) as store:
        for number in range(1, 61):
            batch = Batch(number)
            batch.put(b"row", b"%d" % number)
            store.write(batch)
            store.snapshot(tmp_path / f"{number}")
            (manifest,) = (tmp_path / f"{number}" / "rocks").glob("MANIFEST-*")
            assert manifest.stat().st_size < 2 * 2048
    logs = (tmp_path / "live" / "rocks").glob("LOG*")
    assert sum(log.stat().st_size for log in logs) < 4 * (32 << 10)


def test_a_store_without_content_makes_an_empty_one(overlay, tmp_path):
    overlay.snapshot(tmp_path / "copy")
    with Overlay(RoundStore.take_up(tmp_path / "copy"), 1 << 20) as copy:
        assert held(copy, [b"a"]) == {b"a": None}
        commit(copy, {b"a": b"1"})
        copy.snapshot(tmp_path / "second")
    assert any(value == b"1" for _, value in read(tmp_path / "second"))


def test_what_a_round_changed_is_taken_back_before_a_snapshot(overlay, tmp_path):
    commit(overlay, {b"a": b"1"})
    overlay.scope(STATE, b"a").value(b"tag").set(b"2")
    with pytest.raises(ValueError, match="a round is running"):
        overlay.snapshot(tmp_path / "copy")
    overlay.prepare()
    with pytest.raises(RoundPrepared):
        overlay.snapshot(tmp_path / "copy")
    overlay.rollback()
    overlay.snapshot(tmp_path / "copy")
    with Overlay(RoundStore.take_up(tmp_path / "copy"), 1 << 20) as copy:
        assert held(copy, [b"a"]) == {b"a": b"1"}


def test_a_key_that_was_forgotten_is_a_change_too(overlay, tmp_path):
    commit(overlay, {b"a": b"1"})
    overlay.forget(STATE, b"a")
    with pytest.raises(ValueError, match="a round is running"):
        overlay.snapshot(tmp_path / "copy")


def test_a_round_that_reached_the_store_is_not_in_a_snapshot(tmp_path):
    with Overlay(RoundStore(tmp_path / "live"), 20_000) as overlay:
        commit(overlay, {b"a": b"1"})
        for number in range(100):
            overlay.scope(STATE, b"%d" % number).value(b"tag").set(b"x" * 1000)
        with pytest.raises(ValueError, match="round"):
            overlay.snapshot(tmp_path / "copy")
        with pytest.raises(ValueError, match="undo point"):
            overlay.store.snapshot(tmp_path / "copy")
        overlay.rollback()
        overlay.snapshot(tmp_path / "copy")
        rows = content(overlay.store)
    assert read(tmp_path / "copy") == rows


def test_a_store_in_memory_says_that_it_has_no_files(tmp_path):
    with pytest.raises(StoreFailed, match="no files"):
        MemoryStore().snapshot(tmp_path / "copy")


def test_a_snapshot_overwrites_nothing_and_leaves_nothing_if_it_fails(overlay, tmp_path):
    commit(overlay, {b"a": b"1"})
    (tmp_path / "copy").mkdir()
    (tmp_path / "copy" / "of mine").touch()
    with pytest.raises(NotAStore, match="copy is not empty"):
        overlay.snapshot(tmp_path / "copy")
    assert [path.name for path in (tmp_path / "copy").iterdir()] == ["of mine"]
    with pytest.raises(StoreFailed, match="absent"):
        overlay.snapshot(tmp_path / "absent" / "copy")
    commit(overlay, {b"a": b"2"})
    assert held(overlay, [b"a"]) == {b"a": b"2"}


@pytest.fixture
def full_disk(overlay, monkeypatch):
    """The store of ``overlay`` takes no batches within this."""

    @contextmanager
    def full():
        def refuse(batch):
            message = "the disk is full"
            raise StoreFailed(message)

        with monkeypatch.context() as patch:
            patch.setattr(overlay.store, "write", refuse)
            yield

    return full


def test_records_that_a_snapshot_could_not_write_are_in_the_next(overlay, tmp_path, full_disk):
    records = overlay.records(STATE, Layout(((Value, b"tag"),), ()))
    for key in (b"a", b"b"):
        records.begin(key)
        records.takes(key)
        records.put_value(records.add(key, b""), 0, b"1")
    overlay.prepare()
    overlay.commit()
    with full_disk(), pytest.raises(StoreFailed, match="the disk is full"):
        overlay.snapshot(tmp_path / "copy")
    overlay.snapshot(tmp_path / "second")
    with Overlay(RoundStore.take_up(tmp_path / "second"), 1 << 20) as copy:
        assert held(copy, (b"a", b"b")) == {b"a": b"1", b"b": b"1"}


def test_an_overlay_that_could_not_write_scopes_goes_on_without_them_never(
    overlay, tmp_path, full_disk
):
    commit(overlay, {b"a": b"1"})
    with full_disk(), pytest.raises(StoreFailed, match="the disk is full"):
        overlay.snapshot(tmp_path / "copy")
    with pytest.raises(StoreFailed, match="what was committed and not written is lost"):
        overlay.scope(STATE, b"a")


def test_only_a_store_can_be_taken_up(tmp_path):
    with pytest.raises(NotAStore, match="no store"):
        RoundStore.take_up(tmp_path / "absent")
    assert not (tmp_path / "absent").exists()


KEYS = st.sampled_from([b"a", b"b", b"c"])
CHANGES = st.dictionaries(KEYS, st.none() | st.binary(max_size=3))


@settings(max_examples=15, deadline=None)
@given(st.lists(CHANGES, min_size=1, max_size=4))
def test_every_snapshot_stays_what_it_was(rounds):
    with TemporaryDirectory() as directory:
        check(Path(directory), rounds)


def check(directory, rounds):
    expected = []
    with Overlay(RoundStore(directory / "live"), 1 << 20) as overlay:
        for number, changes in enumerate(rounds):
            commit(overlay, changes)
            overlay.snapshot(directory / str(number))
            expected.append(content(overlay.store))
    assert [read(directory / str(number)) for number in range(len(rounds))] == expected


def test_snapshots_of_stores_need_no_overlay(tmp_path):
    store = open_store(tmp_path / "live")
    batch = Batch(1)
    batch.put(b"\x01row", b"value")
    store.write(batch)
    store.snapshot(tmp_path / "copy")
    assert isinstance(store, RocksStore)
    rows = content(store)
    store.abandon()  # what was not flushed is lost here, not there
    assert read(tmp_path / "copy") == rows
