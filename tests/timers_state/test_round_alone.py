"""A round is taken back until it is kept, and nothing passes it when it is prepared."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from timers_state import MemoryStore
from timers_state.errors import RoundPrepared, StoreFailed
from timers_state.overlay.budget import MemoryBudget
from timers_state.overlay.round import Round
from timers_state.store.store import Batch


def put(store, row):
    batch = Batch(store.sequence + 1)
    batch.put(row, b"")
    store.write(batch)


@pytest.fixture
def store():
    store = MemoryStore()
    put(store, b"\x01before")
    return store


@pytest.fixture
def running(store):
    return Round(store, MemoryBudget(1000))


def scope_of(size):
    image = SimpleNamespace(size=size)
    return SimpleNamespace(state_id=7, key=b"k", unwritten=True, image=lambda: image)


@pytest.mark.parametrize("marks", [1, 2])
def test_what_was_written_after_a_mark_is_taken_back(running, store, marks):
    for row in (b"\x01one", b"\x01two")[:marks]:
        running.mark()
        put(store, row)
    assert running.has_changed()
    running.undo()
    assert list(store.iterate_rows(b"\x01", b"\x02")) == [b"\x01before"]
    assert not running.has_changed()
    running.mark()
    put(store, b"\x01next")
    running.undo()
    assert list(store.iterate_rows(b"\x01", b"\x02")) == [b"\x01before"]


def test_what_was_kept_is_not_taken_back(running, store):
    running.mark()
    put(store, b"\x01kept")
    running.unmark()
    running.undo()
    assert len(list(store.iterate_rows(b"\x01", b"\x02"))) == 2


def test_a_prepared_round_refuses_all_but_its_end(running, store):
    batch = Batch(store.sequence + 1)
    running.prepare(batch)
    for call in (running.check, lambda: running.store.get(b"\x01before"), running.mark):
        with pytest.raises(RoundPrepared, match="commit it or roll it back"):
            call()
    assert running.resume() is batch
    assert running.store is store
    assert running.resume() is None
    running.check()


def test_images_take_their_bytes_until_they_are_dropped():
    budget = MemoryBudget(1000)
    running = Round(MemoryStore(), budget)
    scope = scope_of(300)
    running.keep_aside(scope)
    assert budget.free == 700
    assert running.image_bytes == 300
    assert not scope.unwritten
    assert running.has_changed()
    running.undo()
    assert budget.free == 1000
    assert not running.images


def test_a_scope_that_was_used_is_a_change_and_the_list_stays_the_same(running):
    changed = running.changed
    changed.append(scope_of(0))
    assert running.has_changed()
    running.undo()
    assert running.changed is changed
    assert changed == []


def test_after_a_loss_nothing_is_believed(running):
    running.is_lost = True
    with pytest.raises(StoreFailed, match="the last snapshot has the state of its time"):
        running.check()
