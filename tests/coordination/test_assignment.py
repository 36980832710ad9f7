"""Slots have homes: evenly, as few as possible move, and to where their files are."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkdrain.coordination.assignment import assign
from tests.support.calls import calls_of
from tests.support.law import law


class Machine(NamedTuple):
    """A home."""

    location: str
    name: str


HOMES = st.builds(Machine, st.sampled_from("abc"), st.sampled_from("12345"))
A1, A2, B3 = Machine("a", "1"), Machine("a", "2"), Machine("b", "3")


@law(40)
@given(
    st.integers(0, 20),
    st.dictionaries(st.integers(0, 20), HOMES),
    st.lists(HOMES, min_size=1, max_size=8),
    st.randoms(use_true_random=False),
)
def test_slots_are_spread_evenly_and_as_few_as_possible_move(slots, last, homes, chance):
    placed = assign(range(slots), last, homes)
    alive = set(homes)
    assert sorted(placed) == list(range(slots))
    assert set(placed.values()) <= alive
    load = Counter(placed.values())
    counts = [load[home] for home in alive]
    assert max(counts) - min(counts) <= 1
    # What the even spread allows: everybody keeps the smaller share, and some one more.
    each, more = divmod(slots, len(alive))
    owned = Counter(home for slot, home in last.items() if slot < slots and home in alive)
    possible = sum(min(n, each) for n in owned.values())
    possible += min(more, sum(n > each for n in owned.values()))
    assert sum(placed[slot] == last.get(slot) for slot in placed) == possible
    shuffled = chance.sample(homes, len(homes))
    mixed = dict(chance.sample(sorted(last.items()), len(last)))
    assert assign(chance.sample(range(slots), slots), mixed, shuffled) == placed


@law(40)
@given(
    st.integers(0, 5),
    st.dictionaries(st.integers(0, 4), HOMES),
    st.sets(HOMES, min_size=1, max_size=4),
    st.dictionaries(
        st.integers(0, 4), st.dictionaries(st.sampled_from("abc"), st.integers(0, 9)), max_size=5
    ),
)
def test_no_other_even_spread_keeps_more_slots_or_more_files(slots, last, homes, held):
    placed = assign(range(slots), last, homes, held)

    def worth(each):
        stay = sum(home == last.get(slot) for slot, home in each.items())
        bytes_there = sum(held.get(slot, {}).get(home.location, 0) for slot, home in each.items())
        near = sum(
            slot in last
            and home.location == last[slot].location
            and (not any(held.get(slot, {}).values()) or held[slot].get(home.location, 0) > 0)
            for slot, home in each.items()
        )
        return stay, bytes_there, near

    def is_even(each):
        load = Counter(each.values())
        counts = [load[home] for home in homes]
        return max(counts) - min(counts) <= 1

    others = (dict(enumerate(each)) for each in itertools.product(sorted(homes), repeat=slots))
    assert worth(placed) == max(worth(each) for each in others if is_even(each))


@law(40)
@given(
    st.integers(1, 30),
    st.lists(HOMES, min_size=1, max_size=6, unique=True),
    st.lists(st.tuples(st.booleans(), HOMES), max_size=20),
)
def test_a_home_that_leaves_moves_its_slots_and_no_others_but_for_balance(slots, homes, events):
    placed = assign(range(slots), {}, homes)
    alive = set(homes)
    for joins, home in events:
        after = alive | {home} if joins else alive - {home} or alive
        moved = assign(range(slots), placed, after)
        lost = sum(one not in after for one in placed.values())
        load = Counter(placed.values())
        each, more = divmod(slots, len(after))
        kept = sum(min(load[one], each) for one in after)
        kept += min(more, sum(load[one] > each for one in after))
        assert sum(moved[slot] != placed[slot] for slot in placed) == slots - kept
        if not joins and after != alive:
            assert slots - kept == lost, "only slots of the home that left"
        placed, alive = moved, after


def test_nothing_moves_if_nothing_has_changed():
    placed = assign(range(7), {}, [A1, A2, B3])
    assert assign(range(7), placed, [B3, A2, A1]) == placed


def test_slots_stay_in_whatever_order_they_were():
    """All homes are at one location, so where files are says nothing."""
    a3 = Machine("a", "3")
    last = {0: A2, 1: a3, 2: A2, 3: A1, 4: A1, 5: a3, 6: a3}
    assert assign(range(7), last, [A1, A2, a3]) == last


def test_a_slot_whose_home_is_gone_stays_on_the_machine_if_there_is_room():
    assert assign(range(2), {0: A1, 1: B3}, [A2, B3]) == {0: A2, 1: B3}
    assert assign(range(2), {0: A1, 1: A2}, [A2, B3]) == {0: B3, 1: A2}


def test_a_slot_whose_home_is_gone_goes_to_its_machine_before_any_other():
    """Also where another one would come first, and has as few slots."""
    assert assign(range(1), {0: Machine("b", "1")}, [A2, B3]) == {0: B3}


def test_who_has_one_slot_more_is_where_its_files_are():
    gone = Machine("b", "1")
    last = {0: A1, 1: B3, 2: gone}
    assert assign(range(3), last, [A1, B3]) == {0: A1, 1: B3, 2: B3}


def test_a_slot_goes_where_most_of_its_files_are_that_has_room():
    held = {0: {"a": 1, "b": 2}, 1: {"b": 3, "a": 1}}
    assert assign(range(1), {}, [A1, B3], held) == {0: B3}
    assert sorted(assign(range(2), {}, [A1, B3], held).values()) == [A1, B3]
    assert assign(range(1), {0: A2}, [A2, B3], held) == {0: A2}, "its process has more than files"
    assert assign(range(1), {0: Machine("a", "gone")}, [A1, B3], held) == {0: B3}


def test_a_slot_with_files_in_one_place_goes_before_one_that_has_more_places():
    held = {0: {"a": 9, "b": 8}, 1: {"a": 5}}
    assert assign(range(2), {}, [A1, B3], held) == {0: B3, 1: A1}
    held = {0: {"a": 3, "b": 2, "c": 1}, 1: {"a": 3, "b": 1}, 2: {"a": 3}}
    c5 = Machine("c", "5")
    assert assign(range(3), {}, [A1, B3, c5], held) == {0: c5, 1: B3, 2: A1}


def test_of_the_slots_of_a_home_those_leave_whose_files_are_elsewhere():
    last = {0: A1, 1: A1}
    assert assign(range(2), last, [A1, B3], {0: {"a": 9}, 1: {"a": 9, "b": 9}}) == {0: A1, 1: B3}
    assert assign(range(2), last, [A1, B3], {0: {"a": 9, "b": 9}, 1: {"a": 9}}) == {0: B3, 1: A1}


def test_who_has_one_slot_more_is_where_that_brings_most_files():
    """The slots of one location could also be elsewhere, those of the other one could not."""
    c5 = Machine("c", "5")
    held = {0: {"a": 5, "c": 5}, 1: {"a": 5, "c": 5}, 2: {"b": 5}, 3: {"b": 5}}
    placed = assign(range(4), {}, [A1, B3, c5], held)
    assert {slot for slot, home in placed.items() if home == B3} == {2, 3}
    assert {placed[0], placed[1]} == {A1, c5}


def test_more_homes_than_slots_leave_the_same_ones_idle():
    homes = [A1, A2, B3, Machine("c", "4")]
    placed = assign(range(2), {}, homes)
    assert placed == {0: A1, 1: A2}
    newcomer = Machine("a", "0")
    assert assign(range(2), placed, [newcomer, *homes]) == placed
    assert assign(range(2), placed, [newcomer, A2, B3]) == {0: newcomer, 1: A2}


def test_without_homes_nothing_has_one():
    assert assign(range(3), {0: A1}, []) == {}


def calls(homes, slots, copies):
    """What it costs to assign so many slots anew when each seventh home is gone."""
    alive = [Machine(f"host{number // 4}", f"{number:04d}") for number in range(homes)]
    placed = assign(range(slots), {}, alive)
    left = [home for number, home in enumerate(alive) if number % 7]
    chance = random.Random(1)
    held = {
        slot: {
            f"host{chance.randrange(homes // 4)}": chance.randint(1, 10**9) for _ in range(copies)
        }
        for slot in range(slots if copies else 0)
    }
    return calls_of(lambda: assign(range(slots), placed, left, held))


@pytest.mark.parametrize(("slots", "copies"), [(10, 0), (1, 3)])
def test_ten_times_the_homes_and_slots_cost_ten_times_as_much(slots, copies):
    few, many = (calls(homes, homes * slots, copies) for homes in (100, 1000))
    assert many < 12 * few
