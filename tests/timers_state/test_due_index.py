"""The earliest timer over all keys, wherever they are, is what a dict of all timers says."""

from __future__ import annotations

from types import SimpleNamespace

from hypothesis import given
from hypothesis import strategies as st

from timers_state import Domain, MemoryStore
from timers_state.keys import (
    Family,
    encode_i64,
    key_group,
    owner_in_time,
    owner_prefix,
    tag_prefix,
    time_row,
    timer_name,
    window_prefix,
)
from timers_state.overlay.due_index import DueIndex
from timers_state.store.store import Batch

STATE = 7
KEYS = (b"a", b"arc", b"b")
NAME = (b"f", b"")
SET = st.tuples(st.just("set"), st.sampled_from(KEYS), st.integers(-3, 3))
CLEAR = st.tuples(st.just("clear"), st.sampled_from(KEYS), st.just(0))
WRITE = st.tuples(st.just("write"), st.just(b""), st.just(0))
FORGET = st.tuples(st.just("forget"), st.sampled_from(KEYS), st.just(0))


class Held:
    """The timer of a key in memory: its time, or None where the store's does not count."""

    def __init__(self):
        self.time = None

    def next_held(self):
        return self.time

    def held(self):
        return self.time is not None

    def has_changed(self, window, ident):
        return True


class Memory:
    """Keys in memory, and keys whose rows do not count."""

    def __init__(self):
        self.held = {}
        self.erased = set()

    def unwritten_timers(self, state_id, key, domain):
        return self.held.get(key)

    def is_erased(self, state_id, key):
        return key in self.erased

    def is_all_erased(self, state_id):
        return False

    def keys_that_differ(self, state_id, domain):
        return [*self.held, *self.erased]

    def taken_of(self, state_id, key):
        return None if key in self.held or key in self.erased else {}


def rows_of(key, time):
    group = key_group(key)
    tag_row = tag_prefix(owner_prefix(Family.TAGS, STATE, group, key), b"w", Domain.EVENT)
    place = window_prefix(owner_in_time(group, key), b"w")
    name = timer_name(*NAME)
    return tag_row + name, time_row(STATE, Domain.EVENT, time, place + name)


def write(index, memory, store, stored):
    batch = Batch(store.sequence + 1)
    for key in {*memory.held, *memory.erased}:
        if key in stored:
            batch.delete_timer(*rows_of(key, stored.pop(key)))
    for key, held in memory.held.items():
        if held.time is not None:
            tag_row, row = rows_of(key, held.time)
            batch.put_timer(tag_row, encode_i64(held.time), row, b"")
            index.will_write(held.time)
            stored[key] = held.time
    index.written(whole=True)
    memory.held.clear()
    memory.erased.clear()
    store.write(batch)


def test_two_of_the_keys_share_a_key_group():
    assert len({key_group(key) for key in KEYS}) == 2


@given(st.lists(st.one_of(SET, CLEAR, WRITE, FORGET), max_size=30))
def test_the_first_timer_is_the_first_of_all(steps):
    memory, store = Memory(), MemoryStore()
    index = DueIndex(memory, SimpleNamespace(store=store), STATE, Domain.EVENT)
    model, stored = {}, {}
    for what, key, time in steps:
        if what == "set":
            memory.held.setdefault(key, Held()).time = model[key] = time
            index.note(time, key, alone=True)
        elif what == "clear":
            memory.held.setdefault(key, Held()).time = None
            model.pop(key, None)
        elif what == "forget":
            memory.held.pop(key, None)
            memory.erased.add(key)
            index.drop(key)
            model.pop(key, None)
        else:
            write(index, memory, store, stored)
            assert stored == model
        order = sorted((time, key_group(key), key) for key, time in model.items())
        assert index.first() == ((order[0][0], order[0][2]) if order else None)
        assert index.count() == len(model)
