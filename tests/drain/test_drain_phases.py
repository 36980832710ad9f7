"""The phases of a job, as a table: what it promises, and that nothing leads around it."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from sparkdrain.drain.phases import (
    INSTRUCTIONS,
    RESUMED,
    STEPS,
    DrainEvent,
    DrainPhase,
    drain_walk,
)
from sparkdrain.machine import IllegalStep

OVER = {phase for phase in DrainPhase if phase.is_over}


def following(phase):
    return {after for (before, _), after in STEPS.items() if before is phase}


def all_behind(phase):
    found, new = set(), following(phase)
    while new:
        found |= new
        new = {after for before in new for after in following(before)} - found
    return found


def test_every_phase_can_be_reached_and_none_twice():
    assert all_behind(DrainPhase.READING) == set(DrainPhase) - {DrainPhase.READING}
    for phase in DrainPhase:
        assert phase not in all_behind(phase)


def test_every_phase_but_the_ends_has_an_instruction_and_leads_to_an_end():
    assert INSTRUCTIONS.keys() == set(DrainPhase) - OVER
    for phase in INSTRUCTIONS:
        assert all_behind(phase) & OVER
    for phase in OVER:
        assert following(phase) == set()


def test_every_phase_but_the_ends_can_be_resumed_and_a_cut_is_never_read_on_from():
    assert RESUMED.keys() == set(DrainPhase) - OVER
    for phase, first in RESUMED.items():
        assert INSTRUCTIONS[first].drains == phase.is_cut


def test_slots_hear_of_a_drain_only_behind_a_durable_cut():
    into = {
        (before, event)
        for (before, event), after in STEPS.items()
        if after in INSTRUCTIONS and INSTRUCTIONS[after].drains and not INSTRUCTIONS[before].drains
    }
    assert into == {(DrainPhase.CUT, DrainEvent.CUT_IS_DURABLE)}


def test_a_job_is_over_only_when_the_outside_knows():
    into = {(before, event) for (before, event), after in STEPS.items() if after.is_over}
    assert into == {
        (DrainPhase.PUBLISHING, DrainEvent.OUTSIDE_KNOWS),
        (DrainPhase.ENDING, DrainEvent.OUTSIDE_KNOWS),
    }


def test_a_step_that_the_table_lacks_is_refused_with_the_way_to_the_present_phase():
    walk = drain_walk()
    walk.take(DrainEvent.REQUESTED)
    told = r"The job cannot take the event STAGES_ARE_DRAINED after READING -> \(REQUESTED\) CUT\."
    with pytest.raises(IllegalStep, match=told):
        walk.take(DrainEvent.STAGES_ARE_DRAINED)
    assert walk.state is DrainPhase.CUT


def test_all_that_has_happened_is_followed_at_once_in_the_order_of_the_table():
    happened = {DrainEvent.REQUESTED, DrainEvent.CUT_IS_DURABLE}
    walk = drain_walk()
    assert walk.follow(happened.__contains__) is DrainPhase.TRUNCATED
    both = drain_walk()
    happened.add(DrainEvent.INPUT_HAS_ENDED)
    assert both.follow(happened.__contains__) is DrainPhase.ENDING


class Lives(RuleBasedStateMachine):
    """Drivers of one job, which come and go; facts become true, and each life forgets some."""

    def __init__(self) -> None:
        super().__init__()
        self.walk = drain_walk()
        self.happened = set()
        self.kept = DrainPhase.READING
        """The phase in the newest checkpoint."""
        self.was_told = self.was_cut = False

    @rule(event=st.sampled_from([e for e in DrainEvent if e is not DrainEvent.CUT_IS_DURABLE]))
    def happens(self, event):
        if event is DrainEvent.STAGES_ARE_DRAINED and not self.was_told:
            return  # no slot is drained that has not heard of a drain
        self.happened.add(event)

    @rule(event=st.sampled_from([DrainEvent.REQUESTED, DrainEvent.STAGES_ARE_DRAINED]))
    def happens_and_is_followed(self, event):
        self.happens(event)
        self.follows()
        self.publishes()
        self.follows()

    @rule()
    def follows(self):
        before = self.walk.state
        after = self.walk.follow(self._has_happened)
        assert after is before or after in all_behind(before)
        if not after.is_over:
            self.was_told |= INSTRUCTIONS[after].drains

    def _has_happened(self, event):
        if event is DrainEvent.CUT_IS_DURABLE:
            return self.kept.is_cut
        return event in self.happened

    @rule()
    def publishes(self):
        self.kept = self.walk.state
        self.was_cut |= self.kept.is_cut

    @precondition(lambda self: not self.kept.is_over)
    @rule()
    def dies_and_is_resumed(self):
        self.walk = drain_walk(RESUMED[self.kept])
        self.happened -= {DrainEvent.RESTRICTIONS_ARE_TRUNCATED, DrainEvent.OUTSIDE_KNOWS}

    @invariant()
    def no_slot_hears_before_the_cut_is_durable(self):
        assert self.was_cut or not self.was_told

    @invariant()
    def nothing_is_read_in_a_life_behind_a_durable_cut(self):
        phase = self.walk.state
        if self.kept.is_cut and not phase.is_over and phase is not DrainPhase.ENDING:
            instruction = INSTRUCTIONS[phase]
            assert instruction.holds or instruction.drains

    @invariant()
    def only_a_job_whose_stages_are_drained_is_drained(self):
        if self.walk.state in (DrainPhase.PUBLISHING, DrainPhase.DRAINED):
            assert DrainEvent.STAGES_ARE_DRAINED in self.happened
        if self.walk.state.is_over:
            assert DrainEvent.OUTSIDE_KNOWS in self.happened


TestLives = Lives.TestCase
