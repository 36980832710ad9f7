from __future__ import annotations

import pytest
from apache_beam.utils.timestamp import MAX_TIMESTAMP, MIN_TIMESTAMP
from hypothesis import given
from hypothesis import strategies as st

from sparkdrain.watermarks.frontier import (
    BEGIN,
    END,
    FrontierWentBack,
    advanced,
    least,
    output_frontier,
)

TIMES = st.integers(BEGIN, END)
INPUTS = st.lists(st.tuples(TIMES, TIMES), max_size=5)


def test_begins_and_ends_where_beams_time_does():
    assert MIN_TIMESTAMP.micros == BEGIN
    assert MAX_TIMESTAMP.micros == END


@given(st.lists(TIMES), st.lists(TIMES))
def test_of_several_inputs_is_that_of_the_slowest_however_they_are_put_together(some, others):
    assert least([*some, *others]) == min(least(some), least(others))
    assert least([*others, *some]) == least([*some, *others])


@given(TIMES, INPUTS)
def test_of_an_output_never_goes_back(before, inputs):
    assert output_frontier(before, inputs) >= before


@given(TIMES, INPUTS.filter(bool))
def test_of_an_output_passes_neither_input_nor_hold_unless_it_already_had(before, inputs):
    after = output_frontier(before, inputs)
    for frontier, hold in inputs:
        assert after <= max(before, min(frontier, hold))


@given(TIMES, INPUTS, TIMES, TIMES)
def test_of_an_output_moves_no_less_if_an_input_moves_more(before, inputs, low, high):
    low, high = sorted((low, high))
    slow = output_frontier(before, [*inputs, (low, END)])
    assert slow <= output_frontier(before, [*inputs, (high, END)])


@given(TIMES, TIMES)
def test_cannot_be_taken_back(before, after):
    if after < before:
        with pytest.raises(FrontierWentBack, match="edge 7"):
            advanced(before, after, "edge 7")
    else:
        assert advanced(before, after, "edge 7") == after
