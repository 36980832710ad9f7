"""What waits until a checkpoint has it: when it goes on, in which order, and what is kept."""

from __future__ import annotations

import itertools

import pytest

from sparkdrain.rounds.stable import Coverage, StableInput, put_together
from sparkdrain.stages.shards.input import Input
from sparkdrain.stages.shards.turn import Budget, Turn
from sparkdrain.watermarks.frontier import BEGIN, END
from timers_state import Overlay, RoundStore

ID = 7


class Inner(Input):
    """Remembers what was handed on to it, and in which turns."""

    reason = "inner"

    def __init__(self):
        self.taken, self.turns = [], []
        self.held = END

    def take(self, payload):
        self.taken.append(bytes(payload))

    def process(self, turn):
        self.turns.append(turn)

    advance = process

    def hold(self):
        return self.held


@pytest.fixture
def make_overlay(tmp_path):
    numbers, made = itertools.count(), []

    def make():
        overlay = Overlay(RoundStore(tmp_path / str(next(numbers))), 1 << 20)
        made.append(overlay)
        return overlay

    yield make
    for overlay in made:
        overlay.close()


@pytest.fixture
def overlay(make_overlay):
    return make_overlay()


def turn(before=0, after=0, elements=100, **more):
    return Turn(before, after, 0, Budget(elements, 60.0, lambda: 0.0), **more)


def stable(overlay, coverage=None, *, restored=False, more=None):
    more = [] if more is None else more
    coverage = Coverage(restored=restored) if coverage is None else coverage
    return StableInput(Inner(), overlay, ID, coverage, more.append), coverage


def park(input_, *payloads, **how):
    for payload in payloads:
        input_.take(memoryview(payload))
    input_.process(turn(**how))


def checkpoint(coverage, number, input_):
    coverage.begun(number, {ID: input_.end})


def test_what_no_checkpoint_has_waits(overlay):
    input_, coverage = stable(overlay)
    park(input_, b"one")
    assert input_.waits
    assert input_.wake() is None
    checkpoint(coverage, 1, input_)
    park(input_, b"two")
    assert input_.inner.taken == []
    coverage.published(1)
    input_.process(turn())
    assert input_.inner.taken == [b"one"]
    assert input_.waits, "the second batch is in no checkpoint"


def test_what_a_published_checkpoint_has_goes_on_in_order(overlay):
    input_, coverage = stable(overlay)
    park(input_, b"a", b"b")
    park(input_, b"c")
    checkpoint(coverage, 1, input_)
    coverage.published(1)
    input_.process(turn())
    assert input_.inner.taken == [b"a", b"b", b"c"]
    assert not input_.waits


def test_what_is_safe_wakes_the_job(overlay):
    input_, coverage = stable(overlay)
    park(input_, b"a")
    checkpoint(coverage, 1, input_)
    coverage.published(1)
    assert input_.wake() == BEGIN
    input_.process(turn())
    assert input_.wake() is None


def test_it_tells_whether_more_is_safe(overlay):
    more = []
    input_, coverage = stable(overlay, more=more)
    park(input_, b"a")
    park(input_, b"b", of_drain=True)
    assert more == [False, False], "no checkpoint has any of it"
    checkpoint(coverage, 1, input_)
    park(input_, b"c")
    coverage.published(1)
    input_.process(turn(elements=0))
    input_.process(turn())
    input_.process(turn(of_drain=True))
    assert input_.inner.taken == [b"a", b"b"]
    assert more[3:] == [True, True, False]


def test_a_checkpoint_that_failed_covers_nothing_but_a_later_one_does(overlay):
    input_, coverage = stable(overlay)
    park(input_, b"a")
    checkpoint(coverage, 1, input_)
    park(input_, b"b")
    coverage.begun(2, {})  # 2 was made without this input; 1 never came to be
    coverage.published(2)
    input_.process(turn())
    assert input_.inner.taken == []
    checkpoint(coverage, 3, input_)
    coverage.published(3)
    input_.process(turn())
    assert input_.inner.taken == [b"a", b"b"]


def test_what_a_slot_was_restored_with_goes_on_at_once(overlay):
    park(stable(overlay)[0], b"a")
    again, _ = stable(overlay, restored=True)
    assert not again.waits
    assert again.wake() == BEGIN
    again.process(turn())
    assert again.inner.taken == [b"a"]


def test_an_input_that_is_made_anew_knows_what_is_safe(overlay):
    """A round was undone; the slot's inputs are made again."""
    coverage = Coverage(restored=True)
    first, _ = stable(overlay, coverage)
    park(first, b"a")
    again, _ = stable(overlay, coverage)
    assert again.waits
    again.process(turn())
    assert again.inner.taken == []


def test_numbers_go_on_where_the_state_says(overlay):
    coverage = Coverage(restored=False)
    first, _ = stable(overlay, coverage)
    park(first, b"a")
    again, _ = stable(overlay, coverage)
    assert again.end == 1
    park(again, b"b")
    checkpoint(coverage, 1, again)
    coverage.published(1)
    again.process(turn())
    assert again.inner.taken == [b"a", b"b"]


def test_what_waits_holds_the_frontier_where_it_came(overlay):
    input_, coverage = stable(overlay)
    park(input_, b"a", before=5, after=9)
    assert input_.hold() == 5
    assert input_.reason == "checkpoint"
    checkpoint(coverage, 1, input_)
    coverage.published(1)
    input_.process(turn(before=9, after=9))
    assert input_.hold() == END
    assert input_.reason == "inner"


def test_time_stands_still_for_who_waits(overlay):
    input_, _ = stable(overlay)
    park(input_, b"a", before=5, after=9)
    input_.advance(turn(before=9, after=END))
    assert [(seen.before, seen.after) for seen in input_.inner.turns] == [(5, 5), (5, 5)]


def test_marked_batches_go_on_in_the_marked_part_of_a_round(overlay):
    input_, coverage = stable(overlay)
    park(input_, b"read")
    park(input_, b"caused", of_drain=True)
    checkpoint(coverage, 1, input_)
    coverage.published(1)
    input_.process(turn())
    assert input_.inner.taken == [b"read"]
    input_.process(turn(of_drain=True))
    assert input_.inner.taken == [b"read", b"caused"]


def test_a_spent_budget_leaves_the_rest_for_the_next_round(overlay):
    input_, coverage = stable(overlay)
    park(input_, b"a")
    checkpoint(coverage, 1, input_)
    coverage.published(1)
    input_.process(turn(elements=0))
    assert input_.inner.taken == []
    input_.process(turn())
    assert input_.inner.taken == [b"a"]


def test_what_was_handed_on_is_gone_from_state(overlay):
    input_, coverage = stable(overlay)
    park(input_, b"a")
    checkpoint(coverage, 1, input_)
    coverage.published(1)
    input_.process(turn())
    again, _ = stable(overlay, restored=True)
    again.process(turn())
    assert again.inner.taken == []
    assert again.hold() == END


def test_what_waits_is_counted_as_parked(overlay):
    input_, _ = stable(overlay)
    park(input_, b"a")
    park(input_, b"b")
    assert input_.inside(lambda *_: 0).parked == 2


def test_batches_of_old_slots_keep_their_order(make_overlay):
    """By the time at which they came, then slot by slot; each slot takes its part of a block."""
    olds = {}
    for slot, batches in {0: [(1, b"m-a"), (4, b"m-d")], 1: [(2, b"x-b"), (3, b"m-c")]}.items():
        olds[slot] = make_overlay()
        input_, _ = stable(olds[slot])
        for before, payload in batches:
            park(input_, payload, before=before, after=before)

    def part(slot, payload):
        return payload[2:] + str(slot).encode() if payload.startswith(b"m") else b""

    new = make_overlay()
    put_together(olds.items(), new, ID, part)
    input_, _ = stable(new, restored=True)
    assert input_.end == 3
    input_.process(turn())
    assert input_.inner.taken == [b"a0", b"c1", b"d0"]
