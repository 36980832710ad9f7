"""What a slot remembers of a drain, through the end of its process and in other slots."""

from __future__ import annotations

import pytest

from sparkdrain.rounds.budget import Budget
from sparkdrain.rounds.inputs import Turn
from sparkdrain.rounds.slots.draining import DrainMemory
from sparkdrain.watermarks.frontier import END
from timers_state import Overlay, RoundStore


@pytest.fixture
def overlays(tmp_path):
    made = [Overlay(RoundStore(tmp_path / str(n)), 1 << 20, rounds=True) for n in range(3)]
    yield made
    for overlay in made:
        overlay.close()


def turn(before, after=END):
    return Turn(before, after, 0, Budget(1, 1.0, lambda: 0.0))


def test_where_time_stood_when_the_drain_began_is_remembered(overlays):
    assert DrainMemory(overlays[0]).natural(4, turn(10)) == 10
    assert DrainMemory(overlays[0]).natural(4, turn(99)) == 10
    assert DrainMemory(overlays[0]).natural(5, turn(99)) == 99


def test_an_edge_that_had_ended_before_the_drain_ended_by_itself(overlays):
    memory = DrainMemory(overlays[0])
    assert memory.natural(4, turn(END)) == END


def test_a_rescaled_slot_remembers_where_time_stood_when_the_drain_began(overlays):
    """The earliest of the times that the old slots remember, and every mark."""
    one, other, new = map(DrainMemory, overlays)
    one.natural(4, turn(10))
    other.natural(4, turn(7))
    other.mix(4)
    for old in (one, other):
        new.inherit(old)
    assert new.natural(4, turn(99)) == 7
    assert new.is_mixed(4)
    assert not new.is_mixed(5)
