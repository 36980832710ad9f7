"""Keys that were brought into memory are not read again; nothing else is different."""

from __future__ import annotations

from contextlib import closing

import pytest

from tests.support.counting_store import CountingStore
from timers_state import Domain, Layout, MemoryStore, Overlay, RoundStore, open_store
from timers_state.cells.bag import Bag
from timers_state.cells.value import Value
from timers_state.errors import RoundPrepared, StoreCorrupt

STATE = 7
LAYOUT = Layout(((Value, b"v"), (Bag, b"b")), (b"f",))
KEYS = [b"key-%03d" % number for number in range(200)]


def fill(overlay, keys=KEYS):
    """Keys with a value, a bag and a timer, in the store only."""
    for key in keys:
        scope = overlay.scope(STATE, key)
        scope.value(b"v").set(key)
        scope.bag(b"b").append(key)
        scope.timers(Domain.EVENT).set(5, b"f", payload=key)
    overlay.prepare()
    overlay.commit()
    overlay.room.let_go(1 << 40)


@pytest.fixture
def store():
    return CountingStore()


@pytest.fixture
def overlay(store):
    with Overlay(store, 1 << 22) as overlay:
        fill(overlay)
        overlay._residence.stored = None  # as after a resumed job
        overlay.records(STATE, LAYOUT)
        yield overlay


def test_what_was_written_since_a_prefetch_is_read(overlay):
    overlay.prefetch(STATE, KEYS)
    scope = overlay.scope(STATE, KEYS[0])
    scope.value(b"v").set(b"changed")
    scope.map(b"m").put(b"k", b"new")
    overlay.flush()
    overlay.room.let_go(1 << 40)
    assert scope.value(b"v").get() == b"changed"
    assert scope.map(b"m").get(b"k") == b"new"
    assert list(scope.bag(b"b").read()) == [KEYS[0]]


def test_records_that_were_prefetched_are_there(overlay, store):
    records = overlay.records(STATE, LAYOUT)
    assert overlay.prefetch(STATE, KEYS[:100]) == 100
    store.reset()
    for key in KEYS[:100]:
        record = records.begin(key)
        assert (record.values[0], record.times, record.payloads) == (key, (5,), (key,))
    assert store.calls == 0
    assert records.begin(KEYS[100]) is None
    assert records.takes(KEYS[100])
    assert store.calls > 0


def test_what_the_store_has_not_got_is_looked_for_once(overlay, store):
    records = overlay.records(STATE, LAYOUT)
    absent = [b"absent-%d" % number for number in range(20)]
    assert overlay.prefetch(STATE, absent) == len(absent)
    store.reset()
    assert all(records.takes(key) for key in absent)
    assert all(overlay.scope(STATE, key).value(b"v").get() is None for key in absent)
    assert store.calls == 0
    overlay.rollback()
    assert records.takes(absent[0])
    assert store.calls > 0


def test_keys_in_memory_are_not_read(overlay, store):
    overlay.prefetch(STATE, KEYS)
    overlay.scope(STATE, KEYS[0]).value(b"v").set(b"changed")
    store.read_prefixes = None
    assert overlay.prefetch(STATE, KEYS) == len(KEYS)
    assert overlay.scope(STATE, KEYS[0]).value(b"v").get() == b"changed"


def test_no_more_than_a_part_of_the_budget_is_taken():
    with Overlay(MemoryStore(), 200_000) as overlay:
        fill(overlay)
        overlay.records(STATE, LAYOUT)
        scope = overlay.scope(STATE, KEYS[0])
        scope.value(b"v").set(b"in use" * 1000)
        free = overlay._budget.free
        count = overlay.prefetch(STATE, KEYS)
        assert 5 < count < 100
        assert 0 < free - overlay._budget.free < 200_000 // 6
        assert scope.active
        at = count
        while at < len(KEYS):
            at += overlay.prefetch(STATE, KEYS[at:])
        assert overlay._budget.free > 0
        assert scope.value(b"v").get() == b"in use" * 1000


def test_a_round_that_exceeds_the_budget_reads_nothing_ahead(overlay, store):
    overlay.scope(STATE, KEYS[0]).value(b"v").set(b"x")
    overlay.flush()
    assert not overlay.has_to_prefetch(STATE)
    store.read_prefixes = None
    assert overlay.prefetch(STATE, KEYS) == len(KEYS)
    overlay.rollback()
    assert overlay.has_to_prefetch(STATE)


def test_a_prepared_round_refuses(overlay):
    overlay.prepare()
    with pytest.raises(RoundPrepared):
        overlay.prefetch(STATE, KEYS)


def test_timers_that_were_read_are_taken_from_the_scope_that_came_between(overlay):
    due = overlay.read_due(STATE, Domain.EVENT, 9, 3)
    assert overlay.prefetch(STATE, KEYS) == len(KEYS)
    for key, timers, horizon in due:
        assert not overlay.take(STATE, Domain.EVENT, key, timers[0])
        fired = list(overlay.scope(STATE, key).timers(Domain.EVENT).due(horizon))
        assert [timer.payload for timer in fired] == [key]
    overlay.read_on(STATE, Domain.EVENT)
    assert overlay.count_timers(STATE, Domain.EVENT) == len(KEYS) - len(due)


def test_a_damaged_table_is_an_error_that_names_it(tmp_path):
    keys = [b"key-%04d" % number for number in range(2000)]
    with Overlay(RoundStore(tmp_path / "made"), 1 << 22) as overlay:
        fill(overlay, keys)
        overlay.snapshot(tmp_path / "store")
    for table in (tmp_path / "store").rglob("*.sst"):
        content = bytearray(table.read_bytes())
        start, size = len(content) // 5, len(content) // 10
        content[start : start + size] = bytes(size)
        table.chmod(0o600)
        table.write_bytes(content)
    with closing(Overlay(open_store(tmp_path / "store"), 1 << 22)) as overlay:
        overlay.records(STATE, LAYOUT)
        with pytest.raises(StoreCorrupt, match=str(tmp_path / "store")):
            while keys:
                del keys[: overlay.prefetch(STATE, keys)]
