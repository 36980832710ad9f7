"""Keys that have their turns side by side, without user code."""

from __future__ import annotations

import random

import pytest

from sparkdrain.harness.keyed.keys_in_flight import KeysInFlight, KeyTurn


class Operation:
    """Completes what is in flight in any order, when it is waited for."""

    turn = None

    def __init__(self, most, seed):
        self.max_in_flight = most
        self.dice = random.Random(seed)
        self.flying = []
        self.complete = []
        self.seen = 0

    def hand_over(self):
        self.turn.in_flight += 1
        self.flying.append(self.turn)
        self.seen = max(self.seen, len(self.flying))

    def wait(self):
        self.complete.append(self.flying.pop(self.dice.randrange(len(self.flying))))

    def landed(self):
        landed, self.complete = self.complete, []
        return landed


@pytest.mark.parametrize("seed", range(5))
def test_a_key_begins_when_fewer_than_may_be_are_in_flight(seed):
    operation = Operation(3, seed)
    together, steps = KeysInFlight([operation]), []

    def turn(key, count):
        made = KeyTurn(b"%d" % key, key)

        def hand_over():
            for number in range(count):
                operation.hand_over()
                steps.append((key, number))
                yield

        made.steps = hand_over()
        return made

    for key in range(10):
        together.begin(turn(key, key % 4))
    together.land()
    assert not together.are_any
    assert operation.seen == 3
    assert sorted(steps) == [(key, number) for key in range(10) for number in range(key % 4)]
    assert [step for step in steps if step[0] == 7] == [(7, 0), (7, 1), (7, 2)]


def test_a_key_that_comes_again_waits_for_itself():
    operation, steps = Operation(5, 0), []
    together = KeysInFlight([operation])
    for which in range(3):
        turn = KeyTurn(b"key", "key")

        def hand_over(which=which):
            for number in range(2):
                operation.hand_over()
                steps.append((which, number))
                yield

        turn.steps = hand_over()
        together.begin(turn)
    together.land()
    assert operation.seen == 1
    assert steps == [(which, number) for which in range(3) for number in range(2)]
