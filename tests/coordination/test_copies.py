"""Each slot has its copies, elsewhere, and all take part."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from sparkdrain.coordination.copies import copies
from tests.support.law import law


class Machine(NamedTuple):
    """A home."""

    location: str
    name: str


@law(40)
@given(
    st.dictionaries(
        st.integers(0, 20), st.builds(Machine, st.sampled_from("abcd"), st.sampled_from("123"))
    ),
    st.integers(0, 4),
)
def test_each_slot_has_its_copies_elsewhere(homes, number):
    kept = copies(homes, number)
    assert sorted(kept) == sorted(homes)
    locations = {home.location for home in homes.values()}
    for slot, home in homes.items():
        keepers = [homes[keeper].location for keeper, others in kept.items() if slot in others]
        assert len(keepers) == len(set(keepers)) == min(number, len(locations) - 1)
        assert home.location not in keepers


def test_the_copies_of_a_host_are_spread_over_the_others_and_their_slots():
    homes = {slot: Machine("abcd"[slot % 4], "1") for slot in range(24)}
    kept = copies(homes, 1)
    of_a = Counter(
        homes[keeper].location
        for keeper, others in kept.items()
        for other in others
        if homes[other].location == "a"
    )
    assert of_a == {"b": 2, "c": 2, "d": 2}
    assert max(map(len, kept.values())) <= 2
