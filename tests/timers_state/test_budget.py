"""What is free and what was lent are always the whole budget."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from timers_state.overlay.budget import MOST_ROOM, MemoryBudget

SIZES = st.integers(0, 4 * MOST_ROOM)


@given(SIZES, st.lists(st.tuples(SIZES, SIZES)))
def test_a_borrower_gets_what_it_needs_and_more_only_of_what_is_free(size, loans):
    budget = MemoryBudget(size)
    lent = 0
    for need, leased in loans:
        free = budget.free
        grant = budget.lend(need, leased)
        lent += grant
        assert budget.free + lent == budget.size == size
        assert grant >= need
        assert grant <= max(need, min(need + leased, MOST_ROOM, free))
        if grant > need:
            assert budget.free >= 0


def test_a_key_that_grows_asks_for_twice_as_much_each_time():
    budget, leased, loans = MemoryBudget(1 << 20), 0, 0
    while leased < 1 << 19:
        leased += budget.lend(64, leased)
        loans += 1
    assert loans < 20
