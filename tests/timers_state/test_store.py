"""The laws of a store, for every store: it is a sorted dict that changes in atomic batches."""

from __future__ import annotations

import shutil
import tempfile
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, rule

from timers_state import MemoryStore, RocksMemory, RocksStore, RoundStore, open_store
from timers_state.errors import StoreClosed
from timers_state.store.store import Batch, delete_rows

rows = st.binary(min_size=1, max_size=3).map(lambda row: b"\x01" + row)
values = st.one_of(st.binary(max_size=3), st.just(b"v" * 1000))
changes = st.lists(
    st.one_of(
        st.tuples(st.just("put"), rows, values),
        st.tuples(st.just("delete"), rows, st.just(b"")),
        st.tuples(st.just("delete_range"), rows, rows),
    ),
    max_size=8,
)
SMALL = RocksMemory(cache_bytes=1 << 20, write_bytes=1 << 20)


class StoreMachine(RuleBasedStateMachine):
    """A store in memory and two on disk against a dict."""

    iterators = Bundle("iterators")

    def __init__(self):
        super().__init__()
        self.directory = Path(tempfile.mkdtemp(prefix="timers-state-"))
        self.model = {}
        self.stores = [
            MemoryStore(),
            RoundStore(self.directory / "scratch", SMALL),
            open_store(self.directory / "store", SMALL),
        ]
        self.openings = 0

    def teardown(self):
        for store in self.stores:
            store.close()
        shutil.rmtree(self.directory)

    def part(self, lower, upper):
        return sorted(item for item in self.model.items() if lower <= item[0] < upper)

    @rule(changes=changes)
    def write(self, changes):
        for store in self.stores:
            batch = Batch(store.sequence + 1)
            for change, row, value in changes:
                if change == "put":
                    batch.put(row, value)
                elif change == "delete":
                    batch.delete(row)
                elif row <= value:
                    batch.delete_range(row, value)
            store.write(batch)
            assert store.sequence == batch.sequence
        for change, row, value in changes:
            if change == "put":
                self.model[row] = value
            elif change == "delete":
                self.model.pop(row, None)
            else:
                for doomed, _ in self.part(row, value):
                    del self.model[doomed]

    @rule(asked=st.lists(rows, max_size=5))
    def get(self, asked):
        expected = [self.model.get(row) for row in asked]
        for store in self.stores:
            assert [store.get(row) for row in asked] == expected
            assert store.multi_get(asked) == expected

    @rule(lower=rows, upper=rows)
    def iterate(self, lower, upper):
        expected = self.part(lower, upper)
        for store in self.stores:
            assert list(store.iterate(lower, upper)) == expected
            assert list(store.iterate_rows(lower, upper)) == [row for row, _ in expected]

    @rule(
        prefixes=st.sets(st.binary(min_size=1, max_size=2), max_size=6),
        most=st.integers(0, 3),
        most_bytes=st.sampled_from([0, 3, 2000, 1 << 20]),
    )
    def read_prefixes(self, prefixes, most, most_bytes):
        asked = [b"\x01" + prefix for prefix in sorted(prefixes)]
        apart = [p for p in asked if not any(p != q and p.startswith(q) for q in asked)]
        expected = []
        for prefix in apart:
            found = [item for item in sorted(self.model.items()) if item[0].startswith(prefix)]
            much = len(found) > most or sum(len(value) for _, value in found) > most_bytes
            expected.append(None if much else found)
        for store in self.stores:
            found = store.read_prefixes(apart, most, most_bytes)
            assert [None if rows is None else list(rows) for rows in found] == expected

    @rule(lower=rows, upper=rows)
    def delete_what_is_there(self, lower, upper):
        for store in self.stores:
            batch = Batch(store.sequence + 1)
            delete_rows(store, batch, lower, upper)
            store.write(batch)
        for row, _ in self.part(lower, upper):
            del self.model[row]

    @rule(target=iterators, lower=rows, upper=rows)
    def begin_to_iterate(self, lower, upper):
        running = [store.iterate(lower, upper) for store in self.stores]
        return self.openings, running, self.part(lower, upper)

    @rule(begun=consumes(iterators))
    def an_iterator_shows_no_later_change(self, begun):
        openings, running, expected = begun
        assert list(running[0]) == expected
        assert list(running[1]) == expected
        if openings == self.openings:
            assert list(running[2]) == expected
        elif expected:
            with pytest.raises(StoreClosed):
                list(running[2])

    @rule()
    def flush(self):
        for store in self.stores:
            store.flush()

    @rule()
    def close_and_open_again(self):
        store = self.stores.pop()
        store.close()
        self.openings += 1
        self.stores.append(open_store(self.directory / "store", SMALL))
        assert self.stores[-1].sequence == store.sequence


TestStore = StoreMachine.TestCase
TestStore.settings = settings(
    max_examples=12, stateful_step_count=40, deadline=None, report_multiple_bugs=False
)


def test_removed_rows_beside_a_prefix_are_not_passed_over_one_by_one(tmp_path, monkeypatch):
    bounded = []
    monkeypatch.setattr(
        RocksStore,
        "iterate",
        lambda store, lower, upper, there=RocksStore.iterate: (
            bounded.append(lower) or there(store, lower, upper)
        ),
    )
    with closing(open_store(tmp_path / "store", SMALL)) as store:
        batch = Batch(1)
        for number in range(1000):
            batch.put(b"\x01%04d" % number, b"gone")
        batch.put(b"\x01a", b"there")
        store.write(batch)
        batch = Batch(2)
        for number in range(1000):
            batch.delete(b"\x01%04d" % number)
        store.write(batch)
        prefixes = [b"\x010000", b"\x010990", b"\x01a", b"\x01b"]
        assert store.read_prefixes(prefixes, 9, 99) == [[], [], [(b"\x01a", b"there")], []]
    assert bounded == [b"\x010000"]


@pytest.fixture(params=["memory", "scratch", "rocks"])
def store(request, tmp_path):
    made = {
        "memory": MemoryStore,
        "scratch": lambda: RoundStore(tmp_path / "s"),
        "rocks": lambda: open_store(tmp_path / "s"),
    }[request.param]()
    yield made
    made.close()


def test_a_batch_that_is_not_the_next_one_is_refused(store):
    store.write(Batch(1))
    for wrong in (1, 3):
        with pytest.raises(ValueError, match=f"batch {wrong} cannot follow batch 1"):
            store.write(Batch(wrong))


def test_a_later_change_of_a_batch_wins_over_an_earlier_one(store):
    batch = Batch(1)
    batch.put(b"\x01a", b"1")
    batch.delete_range(b"\x01", b"\x02")
    batch.put(b"\x01b", b"2")
    batch.delete(b"\x01b")
    batch.put(b"\x01c", b"3")
    store.write(batch)
    assert list(store.iterate(b"\x01", b"\x02")) == [(b"\x01c", b"3")]


@pytest.mark.parametrize("count", [0, 16, 17, 1000])
def test_deleting_rows_spares_the_neighbours(store, count):
    batch = Batch(1)
    for number in range(count):
        batch.put(b"\x01b%05d" % number, b"")
    batch.put(b"\x01a", b"")
    batch.put(b"\x01c", b"")
    store.write(batch)
    batch = Batch(2)
    delete_rows(store, batch, b"\x01b", b"\x01c")
    assert len(batch) <= 16
    store.write(batch)
    assert list(store.iterate_rows(b"\x01", b"\x02")) == [b"\x01a", b"\x01c"]


def test_a_closed_store_refuses_everything(store):
    store.write(Batch(1))
    running = store.iterate(b"\x00", b"\xff")
    store.close()
    store.close()
    with pytest.raises(StoreClosed):
        next(running)
    with pytest.raises(StoreClosed):
        store.get(b"\x01")
    with pytest.raises(StoreClosed):
        store.multi_get([b"\x01"])
    with pytest.raises(StoreClosed):
        store.iterate(b"\x01", b"\x02")
    with pytest.raises(StoreClosed):
        store.write(Batch(store.sequence + 1))
    with pytest.raises(StoreClosed):
        store.flush()
