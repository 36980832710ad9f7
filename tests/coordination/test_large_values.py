"""Values that a store does not take as one record: the contract, readers, writers, crashes."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkdrain.coordination.backends.memory import MemoryMetadataStore, SharedSpaces
from sparkdrain.coordination.large_values import PARTS, LargeValues
from sparkdrain.coordination.metadata import ABSENT, ANY, CorruptRecord, StoreDown
from tests.support.store_contract import *  # noqa: F403 - the tests themselves
from tests.support.store_contract import StoreOfKind, against_a_dict, value_of, values_of

LIMIT = 50_000


class Limited(MemoryMetadataStore):
    """A store that refuses what is too large; it counts requests, and acts before one of them."""

    def __init__(self, records=None) -> None:
        super().__init__(records)
        self.requests = 0
        self.acts = {}

    def request(self, *arguments):
        self.requests += 1
        self.acts.pop(self.requests, lambda: None)()

    def put(self, namespace, key, value, version=ANY):
        self.request()
        assert len(value) <= LIMIT
        return super().put(namespace, key, value, version)

    def get(self, *arguments):
        self.request()
        return super().get(*arguments)

    def remove(self, *arguments):
        self.request()
        return super().remove(*arguments)

    def all(self, *arguments, **more):
        self.request()
        return super().all(*arguments, **more)


class InLimited(StoreOfKind):
    def __init__(self, _folder=None) -> None:
        super().__init__("memory:")
        self.spaces = SharedSpaces()

    def open(self):
        return LargeValues(Limited(self.spaces), LIMIT)


@pytest.fixture
def backend():
    return InLimited()


TestLarge = against_a_dict(InLimited)

SIZES = st.sampled_from([0, LIMIT - 1, LIMIT, LIMIT + 1, 3 * LIMIT])


def parts(inner):
    return MemoryMetadataStore(inner._records).all(PARTS)


class Crash(Exception):
    pass


def crash():
    raise Crash


@given(SIZES, SIZES, st.booleans())
def test_a_writer_that_crashes_anywhere_leaves_one_of_the_two_values_and_nothing_for_long(
    before, after, removes
):
    old, new = b"o" * before, b"n" * after
    for step in itertools.count(1):
        spaces = SharedSpaces()
        LargeValues(Limited(spaces), LIMIT).put("a", "k", old)
        inner = Limited(spaces)
        inner.acts[step] = crash
        store = LargeValues(inner, LIMIT)
        try:
            store.remove("a", "k") if removes else store.put("a", "k", new)
        except Crash:
            ended = False
        else:
            ended = True
        keeper = LargeValues(Limited(spaces), LIMIT)
        assert value_of(keeper, "a", "k") in (old, None if removes else new)
        keeper.put("a", "k", b"short")
        assert values_of(keeper, "a") == {"k": b"short"}
        assert parts(inner) == {}
        if ended:
            break
    assert step > 1


@given(SIZES, SIZES, SIZES, st.booleans())
def test_a_writer_and_another_in_the_middle_of_it_leave_the_value_of_the_last(
    before, mine, theirs, expects
):
    for step in itertools.count(1):
        inner = Limited()
        other = LargeValues(MemoryMetadataStore(inner._records), LIMIT)
        version = other.put("a", "k", b"o" * before)
        store = LargeValues(inner, LIMIT)
        inner.acts[step] = lambda other=other: other.put("a", "k", b"t" * theirs)
        written = store.put("a", "k", b"m" * mine, version if expects else ANY)
        left = {b"m" * mine, b"t" * theirs} if written else {b"t" * theirs}
        assert value_of(other, "a", "k") in left
        assert value_of(store, "a", "k") == value_of(other, "a", "k")
        if step in inner.acts:
            break
    assert step > 1


@given(SIZES, SIZES)
def test_a_reader_beside_a_writer_reads_one_of_the_two_values(before, after):
    old, new = b"o" * before, b"n" * after
    for step in itertools.count(1):
        inner = Limited()
        writer = LargeValues(MemoryMetadataStore(inner._records), LIMIT)
        reader = LargeValues(inner, LIMIT)
        writer.put("a", "k", old)
        inner.acts[step] = lambda writer=writer: writer.put("a", "k", new)
        assert value_of(reader, "a", "k") in (old, new)
        inner.requests, inner.acts = 0, {step: lambda writer=writer: writer.put("a", "k", old)}
        assert values_of(reader, "a")["k"] in (old, new)
        if step in inner.acts:
            break
    assert step > 1


def test_a_short_record_is_written_again_by_one_request_each():
    inner = Limited()
    store = LargeValues(inner, LIMIT)
    version = store.put("beats", "me", b"0")
    inner.requests = 0
    for beat in range(5):
        version = store.put("beats", "me", b"%d" % beat, version)
    assert inner.requests == 5


def test_a_removed_record_leaves_no_parts():
    inner = Limited()
    store = LargeValues(inner, LIMIT)
    version = store.put("a", "k", b"2" * LIMIT)
    assert store.remove("a", "k", version)
    assert parts(inner) == {}


def test_a_write_that_comes_too_late_takes_its_parts_back():
    inner = Limited()
    store = LargeValues(inner, LIMIT)
    store.put("a", "k", b"1")
    assert store.put("a", "k", b"2" * LIMIT, ABSENT) is None
    assert parts(inner) == {}


@pytest.mark.parametrize("request_number", [1, 2, 3, 4])
def test_a_write_whose_fate_is_unknown_loses_no_part_of_what_is_there(request_number):
    inner = Limited()
    store = LargeValues(inner, LIMIT)
    large = b"1" * 2 * LIMIT
    version = store.put("a", "k", large)

    def down():
        raise StoreDown

    inner.requests, inner.acts = 0, {request_number: down}
    with pytest.raises(StoreDown):
        store.put("a", "k", b"2", version)
    inner.acts = {}
    assert value_of(store, "a", "k") == (large if request_number <= 2 else b"2")


@pytest.mark.parametrize("damage", ["a part is missing", "another letter", "no JSON"])
def test_a_damaged_record_is_told_and_hides_no_other(damage):
    inner = Limited()
    store = LargeValues(inner, LIMIT)
    store.put("a", "good", b"1")
    store.put("a", "bad", b"x" * 2 * LIMIT)
    if damage == "a part is missing":
        inner.remove(PARTS, next(iter(parts(inner))))
    else:
        inner.put("a", "bad", b"?" if damage == "another letter" else b"c{")
    for act in (lambda: store.get("a", "bad"), lambda: store.all("a")):
        with pytest.raises(CorruptRecord, match="The record 'bad' in 'a' is damaged"):
            act()
    heard = []
    assert values_of(store, "a", on_corrupt=heard.append) == {"good": b"1"}
    assert len(heard) == 1
    store.put("a", "bad", b"again")
    assert value_of(store, "a", "bad") == b"again"
    assert parts(inner) == {}
