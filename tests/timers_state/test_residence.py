"""Where a key is: the same answer as a model that is a dict, and every byte is accounted for."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from timers_state.keys import Domain
from timers_state.large.scope import SCOPE_BYTES
from timers_state.overlay.budget import MemoryBudget
from timers_state.overlay.residence import ABSENT_BYTES, TAKEN_BYTES, Residence, Where

STATES = (1, 2)
KEYS = (b"a", b"b", b"cc")
IDENTS = [(state, key) for state in STATES for key in KEYS]
SIZE = 10_000

idents = st.sampled_from(IDENTS)
states = st.sampled_from(STATES)
IN_STORE = (Where.STORED, Where.TAKEN)


class Scope:
    """As much of a scope as residence sees."""

    unwritten = False
    stored = False

    def __init__(self, ident, leased):
        self.state_id, self.key = ident
        self.leased = leased
        self.is_dead = self.recent = False

    def held_timers(self, domain):
        return None

    def kill(self):
        self.is_dead = True


class Small:
    """As much of ``Records`` as residence sees."""

    leased = 0

    def __init__(self):
        self.heads = {}

    def all(self):
        return ()


class ResidenceMachine(RuleBasedStateMachine):
    """Says what happens to keys, as an overlay would."""

    def __init__(self):
        super().__init__()
        self.budget = MemoryBudget(SIZE)
        self.residence = Residence(self.budget)
        self.residence.begin(0)
        self.residence.records.update({state: Small() for state in STATES})
        self.where = dict.fromkeys(IDENTS, Where.ABSENT)
        self.hidden = set()  # keys whose rows do not count
        self.rows = set()  # keys that the store has
        self.scopes = {}
        self.taken = {}
        self.absent = set()
        self.has_all = False  # whether the store may have any key

    def nowhere(self, ident):
        """Where a key is of which memory has nothing."""
        if ident in self.hidden:
            return Where.ERASED
        if ident in self.taken:
            return Where.TAKEN
        if ident in self.absent:
            return Where.ABSENT
        return Where.STORED if self.has_all or ident in self.rows else Where.ABSENT

    def free(self, ident):
        return self.where[ident] not in (Where.SMALL, Where.LARGE)

    @rule(ident=idents)
    def grow_small(self, ident):
        if self.free(ident) and self.where[ident] is not Where.TAKEN:
            self.residence.records[ident[0]].heads[ident[1]] = object()
            self.where[ident] = Where.SMALL

    @rule(ident=idents)
    def let_go_of_small(self, ident):
        if self.where[ident] is Where.SMALL:
            del self.residence.records[ident[0]].heads[ident[1]]
            self.where[ident] = self.nowhere(ident)

    @rule(ident=idents, leased=st.integers(1, 500))
    def open_scope(self, ident, leased):
        if self.free(ident):
            assert dict(self.residence.untake(ident)) == self.taken.pop(ident, {})
            self.budget.free -= leased
            self.scopes[ident] = self.residence.scopes[ident] = Scope(ident, leased)
            self.where[ident] = Where.LARGE

    @rule(ident=idents, cost=st.integers(0, 50))
    def end_round_of_scope(self, ident, cost):
        if ident in self.residence.scopes:
            self.residence.keep(self.scopes[ident], cost)
            assert (ident in self.residence.scopes) == bool(cost)
            assert (ident in self.residence.resting) or cost

    @rule(ident=idents)
    def drop_resting(self, ident):
        if self.where[ident] is Where.LARGE and ident not in self.residence.scopes:
            del self.scopes[ident]
            self.where[ident] = self.nowhere(ident)

    @rule(ident=idents)
    def forget(self, ident):
        if self.where[ident] is Where.SMALL:
            return
        scope = self.scopes.pop(ident, None)
        assert self.residence.leave(ident) is scope
        self.residence.untake(ident)
        self.taken.pop(ident, None)
        self.where[ident] = self.nowhere(ident)
        if self.where[ident] is Where.STORED:
            self.residence.erase(ident)
            self.hidden.add(ident)
            self.where[ident] = Where.ERASED

    @rule(state=states)
    def forget_all(self, state):
        for ident in self.residence.scopes_of(state):
            self.forget(ident)
        self.residence.erase_all(state)
        for ident in IDENTS:
            if ident[0] == state:
                self.hidden.add(ident)
                if self.free(ident):
                    self.where[ident] = Where.ERASED

    @rule(ident=idents, family=st.sampled_from([b"f", b"g"]))
    def take(self, ident, family):
        timer = (5, b"w", family, b"", b"", b"row", 1)
        before = self.taken.get(ident, {})
        if (Domain.EVENT, b"w", family, b"") in before:
            return
        can = self.where[ident] in (Where.STORED, Where.TAKEN, Where.ABSENT)
        assert self.residence.take(*ident, Domain.EVENT, timer) == can
        if can:
            name = (Domain.EVENT, b"w", family, b"")
            self.taken[ident] = {**before, name: (5, b"row", 1)}
            self.where[ident] = Where.TAKEN

    @rule(ident=idents)
    def find_absent(self, ident):
        if self.where[ident] is Where.STORED and ident not in self.rows:
            self.residence.is_absent(*ident)
            self.absent.add(ident)
            self.where[ident] = Where.ABSENT

    @rule(state=st.none() | states)
    def forget_absent(self, state):
        if state is None:
            self.residence.forget_all_absent()
        else:
            self.residence.forget_absent(state)
        for ident in [ident for ident in self.absent if state in (None, ident[0])]:
            self.absent.remove(ident)
            if self.free(ident):
                self.where[ident] = self.nowhere(ident)

    @rule(stored=st.sets(idents))
    def write(self, stored):
        """What does not count goes, then rows of some keys come."""
        self.forget_absent(None)
        self.residence.are_removed()
        self.rows -= self.hidden
        self.hidden.clear()
        self.taken.clear()
        self.residence.are_stored(stored)
        self.rows |= stored
        for ident in IDENTS:
            if self.free(ident):
                self.where[ident] = self.nowhere(ident)

    @rule(has_rows=st.booleans())
    def roll_back(self, has_rows):
        scopes = list(self.scopes.values())
        self.residence.end_scopes()
        self.residence.drop_removals()
        self.residence.begin(int(has_rows))
        assert all(scope.is_dead for scope in scopes)
        for things in (self.scopes, self.hidden, self.taken, self.absent, self.rows):
            things.clear()
        self.has_all = has_rows
        for ident in IDENTS:
            if self.where[ident] is not Where.SMALL:
                self.where[ident] = self.nowhere(ident)

    @invariant()
    def each_key_is_in_one_place(self):
        assert {ident: self.residence.where(*ident) for ident in IDENTS} == self.where

    @invariant()
    def what_the_index_is_told_follows_from_it(self):
        for ident, where in self.where.items():
            expected = None
            if where in (*IN_STORE, Where.ABSENT):
                expected = self.taken.get(ident, {})
            assert self.residence.taken_of(*ident) == expected
            hidden = ident in self.hidden or where is Where.SMALL
            assert self.residence.is_erased(*ident) == hidden

    @invariant()
    def each_byte_is_accounted_for(self):
        residence = self.residence
        taken = sum(scope.leased for scope in residence.scopes.values())
        taken += sum(SCOPE_BYTES + len(key) for _, key in residence.erased)
        taken += TAKEN_BYTES * sum(map(len, residence.taken.values()))
        taken += ABSENT_BYTES * len(self.absent)
        assert self.budget.free + taken == SIZE

    @precondition(lambda self: self.hidden or self.taken)
    @rule()
    def what_is_to_be_removed_is_a_change(self):
        assert self.residence.has_removals()


TestResidence = ResidenceMachine.TestCase
TestResidence.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)
