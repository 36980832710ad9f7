"""What a kind of cell promises beyond what it reads: what it costs, and what it refuses."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.counting_store import CountingStore
from timers_state import Overlay
from timers_state.cells.ordered_list import Intervals
from timers_state.cells.segment import (
    SEGMENT_BYTES,
    decode_segment,
    encode_segment,
    segments_of,
)
from timers_state.errors import KindMismatch, MalformedRow, StaleScope

unhurried = settings(deadline=None)


@pytest.fixture
def store():
    return CountingStore()


@pytest.fixture
def overlay(store):
    return Overlay(store, 1 << 20)


READS = {
    "value": lambda cell: cell.get(),
    "combining": lambda cell: cell.get(),
    "bag": lambda cell: list(cell.read()),
    "set": lambda cell: cell.contains(b"1"),
    "map": lambda cell: cell.get(b"1"),
    "multimap": lambda cell: list(cell.get(b"1")),
    "ordered_list": lambda cell: list(cell.read()),
}


def change(scope):
    """Changes one cell of every kind in a way that needs no read."""
    scope.value(b"value").set(b"1")
    scope.combining(b"combining").set(b"1")
    scope.bag(b"bag").append(b"1")
    scope.set(b"set").add(b"1")
    scope.set(b"set").remove(b"2")
    scope.map(b"map").put(b"1", b"1")
    scope.map(b"map").remove(b"2")
    scope.multimap(b"multimap").put(b"1", b"1")
    scope.ordered_list(b"ordered_list").append(1, b"1")
    scope.ordered_list(b"other_list").clear_range(5, 6)


def test_changes_read_nothing_however_often_they_are_written_out(overlay, store):
    for _ in range(5):
        change(overlay.scope(1, b"k"))
        overlay.flush()
    assert store.rows == 0
    assert len(list(overlay.scope(1, b"k").bag(b"bag").read())) == 5


def test_a_key_that_was_never_written_out_is_read_without_the_store(overlay, store):
    overlay.scope(1, b"old").value(b"v").set(b"1")
    overlay.flush()
    scope = overlay.scope(1, b"new")
    change(scope)
    for kind, read in READS.items():
        read(getattr(scope, kind)(kind.encode()))
    scope.forget()
    overlay.flush()
    assert store.rows == 0


def test_a_bag_is_read_in_segments_of_bounded_size(overlay):
    bag = overlay.scope(1, b"k").bag(b"b")
    items = [bytes(number % 3000) for number in range(3000)]
    for item in items:
        bag.append(item)
    overlay.flush()
    segments = list(bag.segments())
    assert [item for segment in segments for item in segment] == items
    assert max(sum(map(len, segment)) for segment in segments) <= SEGMENT_BYTES
    assert len(segments) > 50


def test_a_cleared_bag_keeps_what_is_appended_after(overlay):
    bag = overlay.scope(1, b"k").bag(b"b")
    bag.append(b"before")
    overlay.flush()
    bag.clear()
    bag.append(b"after")
    assert list(bag.read()) == [b"after"]
    overlay.flush()
    assert list(bag.read()) == [b"after"]


@pytest.mark.parametrize("sort_key", [-(2**63) - 1, 2**63])
def test_a_sort_key_of_more_than_64_bits_is_refused_at_once(overlay, sort_key):
    ordered = overlay.scope(1, b"k").ordered_list(b"o")
    with pytest.raises(ValueError, match="64-bit"):
        ordered.append(sort_key, b"")
    assert list(ordered.read()) == []


def test_a_tag_in_use_as_another_kind_is_refused(overlay):
    overlay.scope(1, b"k").bag(b"t")
    with pytest.raises(KindMismatch, match=r"b't' of state 1 is in use as Bag .* as Value"):
        overlay.scope(1, b"k").value(b"t")


@pytest.mark.parametrize("kind", READS)
@pytest.mark.parametrize("flushed", [False, True])
def test_a_cell_of_a_forgotten_window_can_neither_be_read_nor_changed(overlay, kind, flushed):
    scope = overlay.scope(1, b"k")
    cell = getattr(scope, kind)(b"t", b"w")
    if flushed:
        overlay.flush()
    scope.forget_window(b"w")
    with pytest.raises(StaleScope, match="forgotten"):
        READS[kind](cell)
    with pytest.raises(StaleScope, match="forgotten"):
        cell.clear()


@unhurried
@given(st.lists(st.binary(max_size=20)))
def test_a_segment_comes_back(items):
    assert decode_segment(encode_segment(items)) == items


@unhurried
@given(st.lists(st.binary(max_size=20), max_size=5), st.integers(0, 200))
def test_a_cut_segment_is_refused(items, length):
    value = encode_segment(items)
    if length < len(value):
        with pytest.raises(MalformedRow, match="segment"):
            decode_segment(value[:length])
    with pytest.raises(MalformedRow, match="segment"):
        decode_segment(value + b"x")


@unhurried
@given(st.lists(st.integers(0, 2 * SEGMENT_BYTES).map(bytes), max_size=8))
def test_segments_hold_everything_and_only_a_large_item_makes_a_large_one(items):
    segments = list(segments_of(items))
    assert [item for segment in segments for item in segment] == items
    assert all(segments)
    for segment in segments:
        assert len(segment) == 1 or sum(map(len, segment)) <= SEGMENT_BYTES


numbers = st.integers(-20, 20)
ranges = st.tuples(numbers, numbers).filter(lambda pair: pair[0] < pair[1])


@unhurried
@given(st.lists(ranges), numbers, numbers)
def test_intervals_are_a_set_of_numbers(added, lower, upper):
    intervals = Intervals()
    for pair in added:
        intervals.add(*pair)
    model = {number for pair in added for number in range(*pair)}
    assert {number for pair in intervals for number in range(*pair)} == model
    gaps = [number for pair in intervals.gaps(lower, upper) for number in range(*pair)]
    assert gaps == sorted(set(range(lower, upper)) - model)


def test_neighbouring_intervals_are_one():
    intervals = Intervals()
    for number in range(1000):
        intervals.add(number, number + 1)
    assert list(intervals) == [(0, 1000)]
