"""Laws of the key layouts: bytes sort like values, and come apart as they were put together."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from timers_state import keys
from timers_state.errors import MalformedRow
from timers_state.keys import Domain, Family, Kind

unhurried = settings(deadline=None)

strings = st.one_of(
    st.binary(max_size=6),
    st.lists(st.sampled_from([b"\x00", b"\x01", b"\xff", b"\x00\xff", b"\x00\x01", b"a"])).map(
        b"".join
    ),
)
state_ids = st.integers(0, 2**32 - 1)
groups = st.integers(0, 2**16 - 1)
i64s = st.one_of(st.integers(keys.I64_MIN, keys.I64_MAX), st.integers(-3, 3))
kinds = st.sampled_from(Kind)
domains = st.sampled_from(Domain)

cells = st.tuples(state_ids, groups, strings, strings, strings, kinds, strings)
times = st.tuples(state_ids, domains, i64s, groups, strings, strings, strings, strings)
tags = st.tuples(state_ids, groups, strings, strings, domains, strings, strings)


def cell_row(cell):
    state_id, group, key, window, tag, kind, suffix = cell
    owner = keys.owner_prefix(Family.CELLS, state_id, group, key)
    return keys.cell_prefix(owner, window, tag, kind) + suffix


def time_row(timer):
    state_id, domain, time, group, key, window, family, tag = timer
    place = keys.window_prefix(keys.owner_in_time(group, key), window)
    return keys.time_row(state_id, domain, time, place + keys.timer_name(family, tag))


def tag_row(timer):
    state_id, group, key, window, domain, family, tag = timer
    owner = keys.owner_prefix(Family.TAGS, state_id, group, key)
    return keys.tag_prefix(owner, window, domain) + keys.timer_name(family, tag)


def cell_of(row):
    owner, length = keys.owner_of_row(row)
    return *owner, *keys.cell_of_row(row, length)


def tag_of(row):
    owner, length = keys.owner_of_row(row)
    return *owner, *keys.timer_of_owned_tag_row(row, length)


def sign(left, right):
    return (left > right) - (left < right)


@unhurried
@given(cells, cells)
def test_rows_of_cells_sort_like_their_parts(left, right):
    assert sign(cell_row(left), cell_row(right)) == sign(left, right)


@unhurried
@given(times, times)
def test_rows_of_the_time_index_sort_like_their_parts(left, right):
    assert sign(time_row(left), time_row(right)) == sign(left, right)


@unhurried
@given(tags, tags)
def test_rows_of_the_tag_index_sort_like_their_parts(left, right):
    assert sign(tag_row(left), tag_row(right)) == sign(left, right)


@unhurried
@given(cells)
def test_a_row_of_a_cell_comes_apart_as_it_was_put_together(cell):
    assert cell_of(cell_row(cell)) == cell


@unhurried
@given(times)
def test_a_row_of_the_time_index_comes_apart_as_it_was_put_together(timer):
    row = time_row(timer)
    assert keys.key_of_time_row(row) == timer[2:]
    owner = keys.owner_in_time(timer[3], timer[4])
    assert row.startswith(owner, keys.OWNER_OFFSET_IN_TIME)
    assert keys.timer_of_time_row(row, len(owner)) == (timer[2], *timer[5:])


@unhurried
@given(tags)
def test_a_row_of_the_tag_index_comes_apart_as_it_was_put_together(timer):
    row = tag_row(timer)
    assert tag_of(row) == timer
    owner = keys.owner_prefix(Family.TAGS, *timer[:3])
    prefix = keys.tag_prefix(owner, timer[3], timer[4])
    assert keys.timer_of_tag_row(row, len(prefix)) == (timer[5], timer[6])


@unhurried
@given(strings, strings)
def test_an_escaped_string_ends_itself(data, after):
    assert keys.unescape(keys.escape(data) + after, 0) == (data, len(keys.escape(data)))


@unhurried
@given(i64s)
def test_a_signed_number_comes_back(number):
    assert keys.decode_i64(keys.encode_i64(number)) == number


@pytest.mark.parametrize("number", [keys.I64_MIN - 1, keys.I64_MAX + 1])
def test_a_number_of_more_than_64_bits_is_refused(number):
    with pytest.raises(ValueError, match="64-bit"):
        keys.encode_i64(number)


@unhurried
@given(st.integers(0, 2**64 - 1))
def test_a_sequence_comes_back(sequence):
    assert keys.decode_sequence(keys.encode_sequence(sequence)) == sequence


@unhurried
@given(strings, strings)
def test_the_end_of_a_prefix_is_above_exactly_what_starts_with_it(prefix, other):
    prefix = b"p" + prefix
    end = keys.prefix_end(prefix)
    assert prefix + other < end
    assert (prefix <= other < end) == other.startswith(prefix)


def test_no_string_is_above_all_that_start_with_ff():
    with pytest.raises(ValueError, match="no string"):
        keys.prefix_end(b"\xff\xff")


@unhurried
@given(st.lists(st.tuples(i64s, st.integers(0, 2**64 - 1), st.integers(0, 2**32 - 1)), min_size=2))
def test_elements_of_an_ordered_list_sort_by_sort_key_then_by_appending(elements):
    rows = [b"p" + keys.sorted_suffix(*element) for element in elements]
    assert [rows.index(row) for row in sorted(rows)] == [
        elements.index(element) for element in sorted(elements)
    ]
    assert [keys.sort_key_of(row) for row in rows] == [element[0] for element in elements]


@unhurried
@given(i64s, st.integers(-(2**70), 2**70))
def test_a_sort_key_bound_is_below_exactly_the_elements_at_or_above_it(sort_key, bound):
    row = b"p" + keys.sorted_suffix(sort_key, 5, 5)
    assert (row >= keys.sort_key_bound(b"p", bound)) == (sort_key >= bound)


@unhurried
@given(st.tuples(st.integers(0, 2**64 - 1), st.integers(0, 2**32 - 1)), st.data())
def test_segments_sort_by_batch_and_index(left, data):
    right = data.draw(st.tuples(st.integers(0, 2**64 - 1), st.integers(0, 2**32 - 1)))
    assert sign(keys.segment_suffix(*left), keys.segment_suffix(*right)) == sign(left, right)


@unhurried
@given(strings, strings)
def test_the_key_of_a_multimap_comes_back(prefix, key):
    row = keys.entry_prefix(prefix, key) + keys.segment_suffix(1, 2)
    assert keys.entry_of(row, len(prefix)) == key


@unhurried
@given(state_ids, groups, strings, strings)
def test_every_prefix_is_one_of_the_rows_under_it(state_id, group, key, window):
    row = cell_row((state_id, group, key, window, b"t", Kind.BAG, b""))
    owner = keys.owner_prefix(Family.CELLS, state_id, group, key)
    assert row.startswith(keys.state_prefix(Family.CELLS, state_id))
    assert row.startswith(keys.group_prefix(Family.CELLS, state_id, group))
    assert row.startswith(keys.window_prefix(owner, window))


@unhurried
@given(domains, state_ids, times)
def test_the_end_of_a_time_domain_is_above_exactly_its_timers(domain, state_id, timer):
    own = (state_id, domain, *timer[2:])
    assert time_row(own) < keys.time_domain_end(state_id, domain)
    if timer[:2] > (state_id, domain):
        assert time_row(timer) > keys.time_domain_end(state_id, domain)


@pytest.mark.parametrize(("state_id", "group"), [(2**32, 0), (-1, 0), (0, 2**16), (0, -1)])
def test_numbers_that_do_not_fit_into_a_key_are_refused(state_id, group):
    with pytest.raises(ValueError, match="must be in"):
        keys.owner_prefix(Family.CELLS, state_id, group, b"k")


@unhurried
@given(
    st.sampled_from([(cell_of, cell_row), (tag_of, tag_row)]),
    st.one_of(st.binary(max_size=40), cells.map(cell_row), tags.map(tag_row)),
)
def test_bytes_that_are_no_row_are_refused_or_are_one(layout, data):
    decode, encode = layout
    try:
        parts = decode(data)
    except MalformedRow:
        return
    assert decode(encode(parts)) == parts


@pytest.mark.parametrize(
    ("decode", "row"),
    [
        (cell_of, b""),
        (tag_of, b"\x03"),
        (cell_of, cell_row((1, 1, b"k", b"w", b"t", Kind.BAG, b""))[:-1]),
        (cell_of, cell_row((1, 1, b"k", b"w", b"t", Kind.BAG, b""))[:-1] + b"\x09"),
        (tag_of, tag_row((1, 1, b"k", b"w", Domain.EVENT, b"", b""))[:-3]),
        (tag_of, tag_row((1, 1, b"k", b"w", Domain.EVENT, b"", b""))[:-2]),
    ],
)
def test_a_cut_or_unknown_row_is_refused(decode, row):
    with pytest.raises(MalformedRow, match="row"):
        decode(row)


# Part of the format: a change here loses every stored key.
GOLDEN = [0, 1001, 377, 185, 82, 910, 286, 836]


def test_key_groups_never_change():
    sample = [
        b"",
        b"a",
        b"key",
        b"user-12345",
        b"\x00",
        b"\xff" * 9,
        "schlüssel".encode(),
        b"x" * 99,
    ]
    assert [keys.key_group(key) for key in sample] == GOLDEN


@pytest.mark.parametrize(
    "encode",
    [
        lambda number: b"user-%08d" % number,
        lambda number: number.to_bytes(8, "big"),
        lambda number: (number * 1024).to_bytes(8, "little"),
        lambda number: (number << 32).to_bytes(12, "big"),
    ],
)
def test_key_groups_of_regular_keys_are_even(encode):
    keys_per_group, count = 50, keys.KEY_GROUPS
    found = Counter(keys.key_group(encode(n)) for n in range(keys_per_group * count))
    assert found.keys() <= set(range(count))
    square = sum((found[g] - keys_per_group) ** 2 for g in range(count)) / keys_per_group
    assert square < count + 6 * (2 * count) ** 0.5  # chi-squared, six sigma


@unhurried
@given(times, i64s)
def test_a_time_bound_is_below_exactly_the_timers_at_or_after_it(timer, time):
    bound = keys.time_bound(timer[0], timer[1], time)
    assert (time_row(timer) >= bound) == (timer[2] >= time)


def test_a_row_of_the_time_index_that_is_cut_is_refused():
    with pytest.raises(MalformedRow, match="row"):
        keys.timer_of_time_row(keys.time_bound(1, Domain.EVENT, 5) + b"owner", 5)


def test_golden_rows():
    assert cell_row((1, 2, b"k\x00", b"w", b"t", Kind.BAG, b"s")).hex(" ") == (
        "01 00 00 00 01 00 02 6b 00 ff 00 01 77 00 01 74 00 01 03 73"
    )
    assert time_row((1, Domain.PROCESSING, -1, 2, b"k", b"w", b"f", b"d")).hex(" ") == (
        "02 00 00 00 01 01 7f ff ff ff ff ff ff ff 00 02 6b 00 01 77 00 01 66 00 01 64"
    )
    assert tag_row((1, 2, b"k", b"w", Domain.EVENT, b"f", b"d")).hex(" ") == (
        "03 00 00 00 01 00 02 6b 00 01 77 00 01 00 66 00 01 64"
    )
