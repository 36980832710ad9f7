"""One report of each slot, or the round is run again."""

from __future__ import annotations

import pytest

from sparkdrain.errors import TruncatedInput
from sparkdrain.rounds.driver.levels import _one_of_each
from sparkdrain.rounds.messages import RoundHeader, RoundReport


def header(slot, number=3):
    return RoundHeader(
        number=number,
        level=1,
        slot=slot,
        now=0,
        committed=None,
        expected=frozenset(),
        inputs={},
        outputs=(),
        begin=False,
        seconds=1.0,
        elements=1,
    )


def report(slot, number=3, attempt=7):
    return RoundReport(1, slot, number, attempt, {}, (), frozenset(), None).encode()


def test_reports_of_all_slots_come_in_any_order():
    reports = _one_of_each([header(0), header(1)], [report(1), report(0)])
    assert sorted(found.slot for found in reports) == [0, 1]


@pytest.mark.parametrize(
    ("told", "slots"),
    [
        ([], r"\[0, 1\]"),
        ([report(1)], r"\[0\]"),
        ([report(0), report(0), report(1)], r"\[0\]"),
        ([report(0, attempt=8), report(0), report(1)], r"\[0\]"),
        ([report(0), report(1, number=2)], r"\[1\]"),
        ([report(0), report(1), report(2)], r"\[2\]"),
    ],
)
def test_a_slot_that_told_nothing_or_twice_is_named(told, slots):
    expected = rf"of slots {slots} of level 1 .* one report each: {len(told)} came for 2 tasks"
    with pytest.raises(TruncatedInput, match=expected):
        _one_of_each([header(0), header(1)], told)
