"""Many values of a key are a stream, from state to the user; keys are as they were."""

from __future__ import annotations

import os

import pytest
from apache_beam import coders
from apache_beam.transforms import trigger, window
from apache_beam.transforms.core import Windowing
from hypothesis import given
from hypothesis import strategies as st
from round_driver import SECOND, Firings, Rounds

from sparkdrain.errors import Unsupported
from sparkdrain.panes.group_keys import group_keys, groups_of
from sparkdrain.panes.triggers import compiled
from sparkdrain.shuffle.values import GroupValues
from timers_state import KEY_GROUPS, key_group
from timers_state.store.round_store import RoundStore

ACCUMULATING = trigger.AccumulationMode.ACCUMULATING
TRIGGERS = {
    "window end": trigger.DefaultTrigger(),
    "general": trigger.AfterWatermark(early=trigger.AfterCount(1 << 30)),
}


@pytest.mark.parametrize("fire", TRIGGERS.values(), ids=TRIGGERS)
def test_many_values_can_be_read_again_and_again_even_after_the_round(fire, tmp_path):
    windowing = Windowing(window.FixedWindows(10), fire, ACCUMULATING)
    values = [bytes([number]) * 100_000 for number in range(120)]
    driven = Rounds(
        windowing,
        tmp_path,
        value_coder=coders.BytesCoder(),
        store=RoundStore(tmp_path / "store"),
        budget_bytes=1 << 20,
        memory_bytes=1 << 20,
        block_bytes=1 << 18,
    )
    for part in range(3):
        of_round = values[40 * part : 40 * part + 40]
        driven.round([("key", value, part) for value in of_round] + [("other", b"small", 1)])
    assert driven.grouping.spilled_bytes > 0
    found = {}
    for _, pairs in driven.grouping.advance(10 * SECOND, 0, Firings(100)):
        found.update(pairs)
    driven.commit()
    assert found["other"] == [b"small"] * 3
    assert type(found["key"]) is GroupValues
    for _ in range(2):
        assert sorted(found["key"]) == values
    assert len(found["key"]) == 120
    driven.overlay.close()
    assert sorted(found["key"]) == values
    assert os.listdir(tmp_path) == []


def test_keys_come_back_as_they_were(tmp_path):
    windowing = Windowing(window.FixedWindows(10))
    coder = coders.TupleCoder([coders.VarIntCoder(), coders.StrUtf8Coder()])
    driven = Rounds(windowing, tmp_path, key_coder=coder)
    panes = driven.round([((1, "a"), 5, 1), ((-1, ""), 6, 1), ((1, "a"), 7, 2)], 10 * SECOND)
    assert {pane[0]: pane[4] for pane in panes} == {(1, "a"): [5, 7], (-1, ""): [6]}


@given(st.lists(st.binary()))
def test_keys_are_sorted_into_the_key_groups_of_the_store(keys):
    assert groups_of(keys) == [key_group(key) for key in keys]


def test_each_key_group_has_a_key_that_stands_for_it():
    assert [key_group(key) for key in group_keys()] == list(range(KEY_GROUPS))


def test_a_trigger_of_ones_own_is_refused_by_name():
    class Mine(trigger.AfterCount):
        pass

    with pytest.raises(Unsupported, match="AfterCount"):
        compiled(trigger.Repeatedly(Mine(3)))
