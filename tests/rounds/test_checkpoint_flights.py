"""Checkpoints of a job, driven by rounds, uploads, failures and phases in any order."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from test_checkpointing import SECOND, SLOTS, Job, Uploaded

from sparkdrain.drain.notification import DrainNotification
from sparkdrain.drain.phases import INSTRUCTIONS, DrainPhase
from sparkdrain.errors import CheckpointFailed
from sparkdrain.machine import IllegalStep
from sparkdrain.rounds.driver.checkpoint_flight import STEPS, FlightEvent, FlightState
from sparkdrain.rounds.driver.checkpointing import Checkpointing

ENDLESS = 10**6


class Storage:
    """Publishes when a test says so, and how that ends."""

    def __init__(self) -> None:
        self.begun: list = []
        self.published: list = []
        self.pending = None
        self.end = None

    def publish(self, cut) -> None:
        assert self.pending is None, "two manifests are on their way"
        self.pending = cut
        self.begun.append(cut)

    def is_published(self) -> bool:
        if self.pending is None or self.end is None:
            return False
        cut, end = self.pending, self.end
        self.pending = self.end = None
        if end == "refused":
            message = "no space left"
            raise CheckpointFailed(message)
        self.published.append(cut)
        return True


def test_an_event_that_does_not_fit_is_refused_with_the_way_to_the_present_state():
    checkpoints = Checkpointing(SECOND, Storage())
    with pytest.raises(IllegalStep, match=r"cannot take the event ALL_UPLOADED after IDLE\."):
        checkpoints._walk.take(FlightEvent.ALL_UPLOADED)


def test_a_checkpoint_that_failed_leaves_room_for_the_next_one():
    failing = {before for before, event in STEPS if event is FlightEvent.FAILED}
    assert {STEPS[before, FlightEvent.FAILED] for before in failing} == {FlightState.IDLE}
    assert failing == {FlightState.UPLOADING, FlightState.PUBLISHING, FlightState.CLOSING}


class Flights(RuleBasedStateMachine):
    """A job that makes checkpoints, in a drain or not, until its last one is there."""

    def __init__(self) -> None:
        super().__init__()
        self.storage = Storage()
        self.checkpoints = Checkpointing(10 * SECOND, self.storage, ENDLESS)
        self.job = Job(self.checkpoints)
        self.phase = DrainPhase.READING
        self.uploaded = {}
        self.covered = {}
        self.told = 0
        self.was_last = False

    @property
    def is_over(self):
        return self.checkpoints._walk.state is FlightState.OVER

    def _round(self, uploaded, **what):
        before = self.job.number
        orders = self.job.orders()
        if orders.checkpoint is not None:
            assert orders.levels == {0, 1}, "all slots are told"
            self.covered[orders.checkpoint] = before, self.phase
        if orders.published > self.told:
            assert orders.levels == {0, 1}, "all slots hear what is published"
        if orders.last:
            assert INSTRUCTIONS[self.phase].ends
            self.was_last = not what.get("complaints")
        newest = max(self.covered, default=0)
        try:
            self.job.commit(
                uploaded={shard: Uploaded(newest, error=e) for shard, e in uploaded.items()}, **what
            )
        finally:
            self.told = orders.published

    @precondition(lambda self: not self.is_over)
    @rule(
        uploaded=st.dictionaries(st.sampled_from(SLOTS), st.sampled_from(["", "", "", "full"])),
        seconds=st.integers(0, 12),
        changed=st.booleans(),
    )
    def commits(self, uploaded, seconds, changed):
        self.job.now += seconds * SECOND
        self._round(uploaded, changed=changed)

    @precondition(lambda self: not self.is_over)
    @rule()
    def commits_with_all_uploads(self):
        self._round(dict.fromkeys(SLOTS, ""))

    @precondition(lambda self: self.checkpoints._walk.state is FlightState.TELLING)
    @rule(first=st.booleans())
    def meets_complaints(self, first):
        if self.checkpoints._last.attempts < 2:
            self._round({}, complaints=("t[0]: nobody there",))

    @rule(end=st.sampled_from(["there", "there", "refused"]))
    def the_storage_answers(self, end):
        if self.storage.pending is not None:
            self.storage.end = end

    @precondition(lambda self: not self.is_over)
    @rule()
    def is_hurried(self):
        self.checkpoints.hurry()

    @rule()
    def comes_to_the_next_phase(self):
        following = {
            DrainPhase.READING: DrainPhase.CUT,
            DrainPhase.TRUNCATED: DrainPhase.FLUSHING,
            DrainPhase.FLUSHING: DrainPhase.PUBLISHING,
        }
        if self.phase is DrainPhase.CUT and self.checkpoints.has_cut:
            following[DrainPhase.CUT] = DrainPhase.TRUNCATED
        if self.phase in following:
            self.phase = following[self.phase]
            self.checkpoints.enter(self.phase, DrainNotification.create("the run", 1))

    @rule()
    def ends_by_itself(self):
        if self.phase in (DrainPhase.READING, DrainPhase.CUT):
            self.phase = DrainPhase.ENDING
            self.checkpoints.enter(self.phase)

    @invariant()
    def a_checkpoint_has_what_was_committed_when_it_was_begun(self):
        for cut in self.storage.begun:
            assert set(cut.files) == set(SLOTS)
            assert all(not part.error for part in cut.files.values())
            if not cut.phase.is_over:
                assert (cut.round, cut.phase) == self.covered[cut.number]
                assert {part.number for part in cut.files.values()} == {cut.number}
            assert (cut.drain is not None) == cut.phase.is_cut

    @invariant()
    def the_cut_is_known_when_it_is_published(self):
        published = self.storage.published
        assert self.checkpoints.has_cut == (bool(published) and published[-1].phase.is_cut)

    @invariant()
    def numbers_grow(self):
        numbers = [cut.number for cut in self.storage.begun]
        assert numbers == sorted(set(numbers))

    @invariant()
    def the_job_is_over_only_when_the_outside_was_told(self):
        if any(cut.phase.is_over for cut in self.storage.begun):
            assert self.was_last
        if self.is_over:
            last, over = self.storage.published[-2:]
            assert (INSTRUCTIONS[last.phase].ends, over.phase.is_over) == (True, True)
            assert (over.files, over.round) == (last.files, last.round)
            assert self.checkpoints.wake() is None

    @invariant()
    def what_has_to_be_durable_is_waited_for(self):
        if INSTRUCTIONS[self.phase].ends and not self.is_over:
            assert self.checkpoints.wake() is not None
        if self.phase is DrainPhase.CUT and not self.checkpoints.has_cut:
            assert self.checkpoints.wake() is not None


TestFlights = Flights.TestCase
