"""Stores are taken apart by key groups and put together again, and nothing is lost or doubled."""

from __future__ import annotations

import shutil
import tempfile
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from timers_state import Domain, Overlay, RoundStore, open_read_only, open_store
from timers_state.errors import Unmovable
from timers_state.keys import KEY_GROUPS, SEQUENCE_ROW, key_group
from timers_state.store.gather import GatherSource, Spread, gather, state_ids

ALL = range(KEY_GROUPS)
BY_KEY, EVERYWHERE, APART = 1, 2, 1 << 31


def spread(state_id):
    return {EVERYWHERE: Spread.EVERYWHERE, APART: Spread.APART}.get(state_id, Spread.BY_KEY)


KEYS = st.binary(max_size=3)
OPERATIONS = st.lists(
    st.tuples(st.sampled_from([BY_KEY, 7]), KEYS, st.integers(0, 6), st.binary(max_size=3)),
    max_size=25,
)


def act(overlay, state_id, key, what, data):
    scope = overlay.scope(state_id, key)
    match what:
        case 0:
            scope.value(b"v", data).set(key + data)
        case 1:
            scope.bag(b"b").append(data)
        case 2:
            scope.map(b"m").put(data, key)
        case 3:
            scope.ordered_list(b"o").append(len(data), data)
        case 4:
            scope.timers(Domain.EVENT).set(len(data) - 1, b"f", data, b"w", b"payload")
        case 5:
            scope.timers(Domain.HOLD).set(5, b"f" + data)
        case 6:
            scope.forget()


def fill(directory, operations):
    with Overlay(open_store(directory), 1 << 20) as overlay:
        for number, operation in enumerate(operations):
            act(overlay, *operation)
            if number % 5 == 4:
                overlay.flush()
        overlay.flush()


def rows(store):
    return {row: value for row, value in store.iterate(b"", b"\xff") if row != SEQUENCE_ROW}


def rows_in(directory):
    store = open_read_only(directory)
    try:
        return rows(store), store.sequence
    finally:
        store.close()


def gather_from(target, groups, *sources):
    """``gather``, from directories with their groups."""
    stores = [open_read_only(directory) for directory, *_ in sources]
    try:
        parts = [
            GatherSource(store, *rest) for store, (_, *rest) in zip(stores, sources, strict=True)
        ]
        gather(target, parts, groups, spread)
    finally:
        for store in stores:
            store.close()
    return rows_in(target)


def cuts(bounds):
    bounds = [0, *sorted(bounds), KEY_GROUPS]
    return [range(*pair) for pair in pairwise(bounds)]


@pytest.fixture
def directory():
    # One for each example of a property, too.
    path = Path(tempfile.mkdtemp())
    yield path
    shutil.rmtree(path)


BOUNDS = st.lists(st.integers(0, KEY_GROUPS), max_size=3)


@settings(max_examples=15, deadline=None)
@given(OPERATIONS, BOUNDS, BOUNDS)
def test_taking_apart_and_putting_together_again_changes_nothing(operations, bounds, others):
    directory = Path(tempfile.mkdtemp())
    try:
        fill(directory / "whole", operations)
        whole, sequence = rows_in(directory / "whole")
        old = {}
        for number, groups in enumerate(cuts(bounds)):
            path = directory / f"old-{number}"
            part, kept = gather_from(path, groups, (directory / "whole", ALL))
            assert all(key_group(key) in groups for key in keys_in(path))
            assert kept == sequence
            old[path] = (groups, part)
        assert sum(len(part) for _, part in old.values()) == len(whole)
        new = {}
        for number, groups in enumerate(cuts(others)):
            sources = [(path, owned) for path, (owned, _) in old.items()]
            part, _ = gather_from(directory / f"new-{number}", groups, *reversed(sources))
            assert not part.keys() & new.keys()
            new.update(part)
        assert new == whole
    finally:
        shutil.rmtree(directory)


def keys_in(directory):
    from timers_state import inspect  # noqa: PLC0415

    store = open_read_only(directory)
    try:
        return {entry.key for entry in inspect.entries(store)}
    finally:
        store.close()


def test_a_gathered_store_goes_on_like_the_old_ones(directory):
    keys = [b"%d" % number for number in range(50)]
    half = KEY_GROUPS // 2
    for name, mine in (("a", range(half)), ("b", range(half, KEY_GROUPS))):
        operations = [
            (BY_KEY, key, what, b"1") for key in keys if key_group(key) in mine for what in (1, 4)
        ]
        fill(directory / name, operations)
    gather_from(
        directory / "both",
        ALL,
        (directory / "a", range(half)),
        (directory / "b", range(half, KEY_GROUPS)),
    )
    with Overlay(RoundStore.take_up(directory / "both"), 1 << 20) as overlay:
        for key in keys:
            overlay.scope(BY_KEY, key).bag(b"b").append(b"2")
        overlay.prepare()
        overlay.commit()
        # What came later sorts later, whichever store had more batches.
        fired = []
        while (key := overlay.next_due(BY_KEY, Domain.EVENT, 0)) is not None:
            fired.append(key)
            assert list(overlay.scope(BY_KEY, key).bag(b"b").read()) == [b"1", b"2"]
            overlay.scope(BY_KEY, key).timers(Domain.EVENT).pop_due(0)
        assert sorted(fired) == sorted(keys)


def test_what_is_everywhere_is_taken_from_whoever_gives_it(directory):
    for name in "ab":
        fill(
            directory / name,
            [(EVERYWHERE, b"%d" % n, what, name.encode()) for n in range(9) for what in (0, 4)],
        )
    given, _ = rows_in(directory / "a")
    for number, groups in enumerate(cuts([100, 700])):
        part, _ = gather_from(
            directory / f"new-{number}",
            groups,
            (directory / "b", range(512, KEY_GROUPS)),
            (directory / "a", range(512), {EVERYWHERE}),
        )
        assert part == given


def test_what_is_apart_stays_where_it_is(directory):
    fill(directory / "a", [(APART, b"", 0, b"a"), (APART, b"t", 4, b"a"), (BY_KEY, b"k", 0, b"a")])
    taken, _ = gather_from(directory / "1", ALL, (directory / "a", ALL))
    assert len(taken) == 1


def test_state_that_is_not_where_its_keys_are_is_never_dropped(directory):
    fill(directory / "a", [(BY_KEY, b"", 0, b"1")])
    assert key_group(b"") == 0
    with pytest.raises(
        Unmovable, match="state 1 has rows of key group 0 in a slot that has the gr"
    ):
        gather_from(directory / "1", ALL, (directory / "a", range(512, KEY_GROUPS)))
    fill(directory / "b", [(BY_KEY, b"k", 4, b"1")])
    group = key_group(b"k")
    with pytest.raises(Unmovable, match=f"key group {group} in"):
        gather_from(directory / "2", ALL, (directory / "b", range(group)))
    part, _ = gather_from(directory / "3", ALL, (directory / "b", range(group, group + 1)))
    assert len(part) == 2


def test_two_sources_of_one_group_are_refused(directory):
    fill(directory / "a", [])
    with pytest.raises(ValueError, match="two sources have key group 5"):
        gather_from(
            directory / "1",
            ALL,
            (directory / "a", range(10)),
            (directory / "a", range(5, 20)),
        )


def test_nothing_makes_an_empty_store(directory):
    gather(directory / "1", [], ALL, spread)
    assert rows_in(directory / "1") == ({}, 0)


def test_what_the_caller_says_of_a_state_ends_it(directory):
    def refuse(state_id):
        message = f"state {state_id}"
        raise KeyError(message)

    fill(directory / "a", [(9, b"k", 0, b"")])
    store = open_read_only(directory / "a")
    with pytest.raises(KeyError, match="state 9"):
        gather(directory / "1", [GatherSource(store, ALL)], ALL, refuse)
    assert state_ids(store) == [9]
    store.close()


def test_only_a_new_store_is_filled(directory):
    store = open_store(directory / "a")
    store.fill([(b"\x01row", b"value")], 7)
    assert (store.sequence, store.get(b"\x01row")) == (7, b"value")
    with pytest.raises(ValueError, match="cannot be filled"):
        store.fill([], 8)
    store.close()
