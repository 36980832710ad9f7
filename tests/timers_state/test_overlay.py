"""The overlay keeps its budget, costs nothing for short lives, and lets a caller keep objects."""

from __future__ import annotations

import gc
import tracemalloc

import pytest

from timers_state import Domain, Layout, MemoryStore, Overlay, RoundStore, key_group, open_store
from timers_state.cells.value import Value
from timers_state.errors import StaleScope
from timers_state.overlay.residents import Residents

_FRAMES = 25
"""How many calls lie between a test and what takes memory for it, at most."""


class StoreThatMustNotBeUsed:
    """Fails any test that reaches for the store."""

    sequence = 0


def one_life(overlay, key):
    scope = overlay.scope(1, key)
    scope.value(b"v").set(scope.value(b"v").get() or b"1")
    scope.bag(b"b").append(b"2")
    list(scope.bag(b"b").read())
    scope.combining(b"c").set(b"3")
    timers = scope.timers(Domain.EVENT)
    timers.set(4, b"t")
    assert [timer.time for timer in timers.due(9)] == [4]
    scope.forget()


def test_keys_that_come_and_go_never_touch_the_store():
    overlay = Overlay(StoreThatMustNotBeUsed(), 10_000)
    for number in range(1000):
        one_life(overlay, b"%d" % number)


def test_keys_that_come_and_go_leave_no_memory_behind_without_a_garbage_collection():
    overlay = Overlay(StoreThatMustNotBeUsed(), 10_000)
    one_life(overlay, b"first")
    # Threads that earlier tests left behind take memory, too, so frames tell whose it is.
    from_here = tracemalloc.Filter(inclusive=True, filename_pattern=__file__, all_frames=True)
    gc.disable()
    tracemalloc.start(_FRAMES)
    try:
        for number in range(2000):
            one_life(overlay, b"%d" % number)
            if number % 20 == 19:
                assert overlay.prepare() == 0
                overlay.commit()
        left = tracemalloc.take_snapshot().filter_traces([from_here])
    finally:
        tracemalloc.stop()
        gc.enable()
    # Python keeps objects that were freed for the next ones of their type, at most 80 of each.
    assert sum(trace.size for trace in left.traces) < 40_000


def test_a_key_larger_than_the_budget_stays_within_bounded_memory(tmp_path):
    overlay = Overlay(RoundStore(tmp_path / "s"), 100_000)
    bag = overlay.scope(1, b"k").bag(b"b")
    tracemalloc.start()
    for number in range(50_000):
        bag.append(b"%020d" % number)
    for number, item in enumerate(bag.read()):
        assert int(item) == number
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert number == 49_999
    assert peak < 1_500_000
    overlay.close()


def test_many_windows_of_one_key_stay_within_bounded_memory():
    overlay = Overlay(StoreOfSizes(), 100_000)
    scope = overlay.scope(1, b"k")
    tracemalloc.start()
    for number in range(5000):
        scope.value(b"v", b"%d" % number).set(b"x" * 20)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1_000_000


def test_many_keys_stay_within_bounded_memory():
    overlay = Overlay(StoreOfSizes(), 100_000)
    tracemalloc.start()
    for number in range(5000):
        scope = overlay.scope(1, b"%d" % number)
        scope.value(b"v").set(b"x" * 20)
        scope.timers(Domain.EVENT).set(1, b"t")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2_500_000  # of it, 5000 names of keys that the store has rows of


class StoreOfSizes:
    """Takes everything and keeps nothing: what is in memory is the overlay's."""

    def __init__(self):
        self.sequence = 0

    def write(self, batch):
        self.sequence = batch.sequence

    def mark(self):
        pass


def test_forgetting_a_written_key_removes_its_rows_with_the_next_batch_and_hides_them_before():
    store = MemoryStore()
    overlay = Overlay(store, 1 << 20)
    for key in (b"a", b"b", b"c"):
        overlay.scope(1, key).bag(b"b").append(key)
        overlay.scope(1, key).timers(Domain.EVENT).set(1, b"t")
    overlay.flush()
    overlay.scope(1, b"b").forget()
    again = overlay.scope(1, b"b")
    assert list(again.bag(b"b").read()) == []
    assert again.timers(Domain.EVENT).next_time() is None
    again.bag(b"b").append(b"new")
    overlay.flush()
    assert list(again.bag(b"b").read()) == [b"new"]
    overlay.scope(1, b"b").forget()
    overlay.flush()
    assert len(list(store.iterate_rows(b"\x01", b"\xff"))) == 2 * 3


def test_a_scope_is_one_object_as_long_as_somebody_has_it():
    overlay = Overlay(MemoryStore(), 1 << 20)
    scope = overlay.scope(1, b"k")
    bag = scope.bag(b"b")
    timers = scope.timers(Domain.EVENT)
    for _ in range(3):
        overlay.flush()
        assert overlay.scope(1, b"k") is scope
        assert scope.bag(b"b") is bag
        assert scope.timers(Domain.EVENT) is timers
        bag.append(b"x")
    assert len(list(overlay.scope(1, b"k").bag(b"b").read())) == 3


def test_a_cell_alone_is_enough_to_have_its_changes_written():
    overlay = Overlay(MemoryStore(), 1 << 20)
    bag = overlay.scope(1, b"k").bag(b"b")
    overlay.flush()
    bag.append(b"x")
    del bag
    gc.collect()
    overlay.flush()
    assert list(overlay.scope(1, b"k").bag(b"b").read()) == [b"x"]


def test_a_write_that_fails_makes_the_overlay_useless(monkeypatch):
    overlay = Overlay(MemoryStore(), 20_000)
    value = overlay.scope(1, b"k").value(b"v")
    value.set(b"1")

    def write(batch):
        message = "no space left"
        raise OSError(message)

    monkeypatch.setattr(overlay.store, "write", write)
    with pytest.raises(OSError, match="no space left"):
        overlay.flush()
    with pytest.raises(StaleScope):
        value.set(b"2")


def test_a_scope_is_stale_after_its_key_was_forgotten():
    overlay = Overlay(MemoryStore(), 1 << 20)
    scope = overlay.scope(1, b"k")
    bag = scope.bag(b"b")
    scope.forget()
    scope.forget()
    for use in (
        lambda: bag.append(b""),
        bag.clear,
        lambda: scope.value(b"v"),
        lambda: scope.timers(Domain.EVENT),
        lambda: scope.forget_window(b"w"),
        lambda: scope.group,
    ):
        with pytest.raises(StaleScope, match="ask the overlay for the scope again"):
            use()


def test_closing_the_overlay_closes_the_store_and_drops_what_was_not_flushed(tmp_path):
    with Overlay(open_store(tmp_path / "s"), 1 << 20) as overlay:
        overlay.scope(1, b"k").value(b"v").set(b"kept")
        overlay.prepare()
        overlay.commit()
        overlay.flush()
        overlay.scope(1, b"k").value(b"v").set(b"dropped")
    with Overlay(open_store(tmp_path / "s"), 1 << 20) as overlay:
        assert overlay.scope(1, b"k").value(b"v").get() == b"kept"


def test_a_flush_without_changes_writes_no_batch():
    overlay = Overlay(MemoryStore(), 1 << 20)
    overlay.scope(1, b"k").value(b"v").get()
    overlay.flush()
    assert overlay.store.sequence == 0


def test_rows_carry_the_key_group_of_their_key():
    overlay = Overlay(MemoryStore(), 1 << 20)
    assert overlay.scope(1, b"user-12345").group == key_group(b"user-12345")


@pytest.mark.parametrize("capacities", [(), (4,), (1 << 10,)])
def test_many_written_keys_are_found_however_much_is_known_of_them(capacities):
    overlay = Overlay(MemoryStore(), 1 << 20)
    overlay._residence.stored = Residents(most_exact=3, capacities=capacities)
    for number in range(10):
        overlay.scope(1, b"%d" % number).value(b"v").set(b"%d" % number)
        overlay.flush()
    assert [overlay.scope(1, b"%d" % n).value(b"v").get() for n in range(10)] == [
        b"%d" % number for number in range(10)
    ]


def test_a_key_that_only_the_store_has_becomes_small_when_it_is_brought():
    with Overlay(MemoryStore(), 1 << 20) as overlay:
        for key in (b"small", b"large"):
            overlay.scope(1, key).value(b"v").set(b"x")
        overlay.prepare()
        overlay.commit()
        overlay.room.let_go(1 << 40)
        overlay.records(1, Layout(((Value, b"v"),), ()))
        assert overlay.scope(1, b"large").value(b"v").get() == b"x"
        assert not overlay.is_small(1, b"small")
        assert overlay.bring_small(1, b"small")
        assert overlay.is_small(1, b"small")
        assert not overlay.bring_small(1, b"large")
        assert not overlay.bring_small(1, b"absent")
        assert not overlay.bring_small(2, b"small")
