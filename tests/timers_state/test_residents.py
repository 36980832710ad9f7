"""No key that the store has is taken for one that it has not."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from timers_state.overlay.residents import Residents

IDENTS = st.tuples(st.integers(0, 3), st.binary(max_size=3))


@given(st.lists(IDENTS), st.lists(IDENTS), st.integers(0, 20), st.lists(st.just(8), max_size=2))
def test_who_was_added_is_there_however_many_there_are(added, left, most_exact, capacities):
    residents = Residents(most_exact, tuple(capacities))
    model = set()
    for ident in added:
        residents.add(ident)
        model.add(ident)
    residents.leave(left)
    model.difference_update(left)
    residents.leave_all(3)
    model = {ident for ident in model if ident[0] != 3}
    residents.update(left[:2])
    model.update(left[:2])
    assert all(ident in residents for ident in model)


def test_few_keys_are_remembered_as_they_are():
    residents = Residents()
    residents.update((1, b"%d" % number) for number in range(1000))
    residents.leave([(1, b"7")])
    assert (1, b"8") in residents
    assert (1, b"7") not in residents
    assert (2, b"8") not in residents


def test_of_many_keys_nearly_all_others_are_known_not_to_be_there():
    residents = Residents(most_exact=10, capacities=(1 << 12, 1 << 14))
    residents.update((1, b"%d" % number) for number in range(15_000))
    mistaken = sum((1, b"%d" % number) in residents for number in range(15_000, 30_000))
    assert mistaken < 15_000 * 0.03


def test_of_too_many_keys_nothing_is_known():
    residents = Residents(most_exact=1, capacities=(4,))
    residents.update((1, b"%d" % number) for number in range(10))
    assert (2, b"never added") in residents
