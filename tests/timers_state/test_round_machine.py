"""Any sequence of calls and rounds reads what a dict would read that is copied at every commit."""

from __future__ import annotations

from collections import defaultdict
from copy import deepcopy

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import consumes, invariant, rule
from test_overlay_machine import KEYS, STATES, OverlayMachine, domains, numbers, places

from timers_state import Domain, MemoryStore, Overlay, RoundStore, key_group, open_store
from timers_state.errors import RoundPrepared, StaleScope
from timers_state.large.scope import SCOPE_BYTES
from timers_state.overlay.residence import ABSENT_BYTES, TAKEN_BYTES

MANY_TIMERS = st.lists(
    st.tuples(st.sampled_from(KEYS), st.sampled_from([b"f", b"g"]), st.integers(0, 3)),
    min_size=4,
    max_size=12,
)


class RoundMachine(OverlayMachine):
    """As without rounds, and rounds end well or badly at any point."""

    close_and_open_again = None

    def __init__(self):
        super().__init__()
        for overlay in self.overlays:
            overlay.close()
        self.overlays = [
            Overlay(MemoryStore(), 1 << 30),
            Overlay(MemoryStore(), 8000),
            Overlay(RoundStore(self.directory / "round"), 0),
            Overlay(open_store(self.directory / "other"), 20_000),
        ]
        self.committed = deepcopy(self.model)
        self.snapshots = 0

    @rule(commits=st.booleans())
    def end_a_round(self, commits):
        for overlay in self.overlays:
            overlay.prepare()
            with pytest.raises(RoundPrepared):
                overlay.scope(3, b"new")
            if commits:
                overlay.commit()
            else:
                overlay.rollback()
        if commits:
            self.committed = deepcopy(self.model)
        else:
            self.everything_is_as_it_was()

    @rule()
    def take_back_a_round_that_runs(self):
        for overlay in self.overlays:
            overlay.rollback()
        self.everything_is_as_it_was()

    @rule()
    def go_on_with_a_snapshot(self):
        self.take_back_a_round_that_runs()
        self.snapshots += 1
        for at, take_up, budget in ((2, RoundStore.take_up, 0), (3, open_store, 20_000)):
            directory = self.directory / f"snapshot-{at}-{self.snapshots}"
            self.overlays[at].snapshot(directory)
            self.overlays[at].close()
            self.overlays[at] = Overlay(take_up(directory), budget)

    def everything_is_as_it_was(self):
        self.model = deepcopy(self.committed)
        self.graveyard += self.kept.values()
        for cells in self.kept.values():
            for cell in cells:
                with pytest.raises(StaleScope):
                    cell.clear()
        self.kept.clear()
        self.openings += 1

    @rule(begun=consumes(OverlayMachine.iterators))
    def what_was_begun_shows_no_later_change(self, begun):
        openings, reads = begun
        if openings == self.openings:
            for running, expected in reads:
                self.agree([list(iterator) for iterator in running], expected)

    def expected_first(self, state_id, domain):
        return min(
            (
                (time, key_group(key), key)
                for (state, key), model in self.model.items()
                for (found, _), (time, _) in model.timers.items()
                if (state, found) == (state_id, domain)
            ),
            default=None,
        )

    @rule(state_id=st.sampled_from(STATES), domain=domains, up_to=numbers)
    def look_at_timers_of_all_keys(self, state_id, domain, up_to):
        first = self.expected_first(state_id, domain)
        due = first[2] if first and first[0] <= up_to else None
        for overlay in self.overlays:
            assert overlay.first_time(state_id, domain) == (first and first[0])
            assert overlay.next_due(state_id, domain, up_to) == due

    @rule(state_id=st.sampled_from(STATES), domain=domains)
    def count_timers_of_all_keys(self, state_id, domain):
        every = [overlay.count_timers(state_id, domain) for overlay in self.overlays]
        keys = [model for (state, _), model in self.model.items() if state == state_id]
        self.agree(every, sum(found == domain for model in keys for found, _ in model.timers))

    @rule(
        state_id=st.sampled_from(STATES),
        domain=domains,
        up_to=numbers,
        most=st.integers(1, 8),
        whole_keys=st.booleans(),
    )
    def fire_timers_of_all_keys(self, state_id, domain, up_to, most, whole_keys):
        for _ in range(most):
            first = self.expected_first(state_id, domain)
            due = first[2] if first and first[0] <= up_to else None
            every = [overlay.next_due(state_id, domain, up_to) for overlay in self.overlays]
            self.agree(every, due)
            if due is None:
                break
            self.fire((state_id, due), domain, up_to, whole_keys)

    def fire(self, key, domain, up_to, whole_keys):
        every = self.timers(key, domain)
        for timer in self.model[key].due(domain, up_to)[: None if whole_keys else 1]:
            self.agree([tuple(timers.pop_due(up_to)) for timers in every], timer)
            del self.model[key].timers[domain, timer[1:4]]
        if whole_keys:
            self.agree([timers.pop_due(up_to) for timers in every], None)

    @rule(
        state_id=st.sampled_from(STATES),
        domain=domains,
        up_to=numbers,
        most=st.integers(1, 4),
        stops_after=st.integers(0, 20),
        opens=st.lists(st.booleans(), max_size=8),
    )
    def fire_timers_of_many_keys(self, state_id, domain, up_to, most, stops_after, opens):
        self.fire_all(state_id, domain, up_to, most, stops_after, opens)

    def fire_all(self, state_id, domain, up_to, most, stops_after, opens):
        expected = {
            key: model.due(domain, up_to)
            for (state, key), model in self.model.items()
            if state == state_id and model.due(domain, up_to)
        }
        for overlay in self.overlays:
            fired = defaultdict(list)
            due = state_id, domain, up_to
            self.fire_as_read(overlay, due, most, stops_after, list(opens), fired)
            while (key := overlay.next_due(state_id, domain, up_to)) is not None:
                fired[key] += overlay.scope(state_id, key).timers(domain).due(up_to)
            assert {key: list(map(tuple, timers)) for key, timers in fired.items()} == expected
        for key, timers in expected.items():
            for timer in timers:
                del self.model[state_id, key].timers[domain, timer[1:4]]

    def fire_as_read(self, overlay, due, most, stops_after, opens, fired):
        """Fires keys as they are read, with their scopes where ``opens`` says so."""
        state_id, domain, _ = due
        while keys := overlay.read_due(*due, most):
            for key, read, horizon in keys:
                if not stops_after:
                    return
                stops_after -= 1
                left = list(read or ())
                while left and not (opens and opens.pop()):
                    if not stops_after:
                        return
                    stops_after -= 1
                    if not overlay.take(state_id, domain, key, left[0]):
                        break
                    fired[key].append(left.pop(0)[:5])
                if left or read is None:
                    timers = overlay.scope(state_id, key).timers(domain)
                    fired[key] += timers.due(max([horizon, *(timer[0] for timer in left)]))
                elif opens and opens.pop():
                    timers = overlay.scope(state_id, key).timers(domain)
                    timers.none_until(horizon)
                    fired[key] += timers.due(horizon)
            overlay.read_on(state_id, domain)

    @rule(state_id=st.sampled_from(STATES))
    def forget_a_state(self, state_id):
        for overlay in self.overlays:
            overlay.forget_all(state_id)
        for key in [key for key in self.model if key[0] == state_id]:
            del self.model[key]
        for kind, place in [kept for kept in self.kept if kept[1][0][0] == state_id]:
            self.graveyard.append(self.kept.pop((kind, place)))

    @rule(state_id=st.sampled_from(STATES), domain=domains, key=st.sampled_from(KEYS))
    def ask_for_a_time_from_outside(self, state_id, domain, key):
        timers = self.model[state_id, key].timers if (state_id, key) in self.model else {}
        for (found, (window, family, tag)), (time, _) in list(timers.items()):
            if found == domain:
                for overlay in self.overlays:
                    assert overlay.time_of(state_id, domain, key, window, (family, tag)) == time
        for overlay in self.overlays:
            assert overlay.time_of(state_id, domain, key, b"no", (b"such", b"timer")) is None

    @rule()
    def go_to_the_store(self):
        self.end_a_round(True)
        for overlay in self.overlays:
            overlay.room.let_go(1 << 40)

    @invariant()
    def the_budget_is_accounted_for(self):
        for overlay in self.overlays:
            leased = sum(scope.leased for scope in overlay._residence.scopes.values())
            erased = sum(SCOPE_BYTES + len(key) for _, key in overlay._residence.erased)
            images = overlay.running.image_bytes
            taken = TAKEN_BYTES * sum(map(len, overlay._residence.taken.values()))
            absent = ABSENT_BYTES * sum(map(len, overlay._residence._absent.values()))
            assert (
                overlay._budget.free + leased + erased + images + taken + absent
                == overlay._budget.size
            )

    @invariant()
    def changed_scopes_are_active(self):
        for overlay in self.overlays:
            active = [scope for scope in overlay.running.changed if scope.active]
            assert len(active) == len({id(scope) for scope in active})
            assert set(map(id, active)) == {
                id(scope) for scope in overlay._residence.scopes.values() if scope.active
            }


class KeptMachine(RoundMachine):
    """Only what stays in memory after a commit, so that it is met more often."""

    keep_a_cell = let_go_of_kept_cells = None
    add_to_an_accumulator = begin_to_read = what_was_begun_shows_no_later_change = None
    add_to_a_set = remove_from_a_set = read_a_set = None
    put_into_a_map = remove_from_a_map = read_a_map = None
    put_into_a_multimap = remove_from_a_multimap = read_a_multimap = None
    append_to_an_ordered_list = clear_a_range_of_an_ordered_list = None
    read_a_range_of_an_ordered_list = clear_a_cell = None

    @rule(place=places)
    def clear_a_bag(self, place):
        for cell in self.cells("bag", place):
            cell.clear()
        self.model[place[0]].bags.pop(place[1:], None)


class UnwrittenMachine(KeptMachine):
    """Only what may stay unwritten after a commit, and the moments at which all is written."""

    append_to_a_bag = clear_a_bag = None
    add_to_an_accumulator = OverlayMachine.add_to_an_accumulator

    @rule(kind=st.sampled_from(["value", "combining"]), place=places)
    def keep_a_cell_of_one_value(self, kind, place):
        self.kept[kind, place] = self.cells(kind, place)

    @rule(new_round=st.booleans())
    def everything_that_was_committed_is_in_a_snapshot(self, new_round):
        if new_round:
            self.end_a_round(True)
        else:
            self.take_back_a_round_that_runs()
        for overlay in self.overlays[2:]:
            copy = self.directory / "copy"
            overlay.snapshot(copy)
            with Overlay(RoundStore.take_up(copy), 5000) as taken:
                for key, model in self.committed.items():
                    for (window, tag), content in model.values.items():
                        assert taken.scope(*key).value(b"value" + tag, window).get() == content
                for state_id in STATES:
                    for domain in Domain:
                        first = self.expected_first(state_id, domain)
                        assert taken.first_time(state_id, domain) == (first and first[0])


class ReadMachine(KeptMachine):
    """Only timers of a few keys, many of them in the store when they are read in its order."""

    set_a_value = read_or_clear_a_value = clear_a_value = None
    append_to_a_bag = read_a_bag = clear_a_bag = None
    forget_a_window = look_at_timers = fire_timers = look_at_timers_of_all_keys = None
    a_flushed_store_has_a_time_row_for_every_tag_row = None
    set_a_timer = clear_a_timer = fire_timers_of_all_keys = fire_timers_of_many_keys = None

    @rule(
        timers=MANY_TIMERS,
        ends_the_round=st.booleans(),
    )
    def set_many_timers(self, timers, ends_the_round):
        for key, family, time in timers:
            self.set_one((STATES[0], key), Domain.EVENT, (b"", family, b""), time, b"")
        if ends_the_round:
            self.end_a_round(True)

    @rule(key=st.sampled_from(KEYS), name=st.sampled_from([b"f", b"g"]))
    def clear_one_timer(self, key, name):
        self.clear_one((STATES[0], key), Domain.EVENT, (b"", name, b""))

    @rule(
        up_to=st.integers(0, 3),
        most=st.integers(1, 3),
        stops_after=st.sampled_from([2, 3, 100]),
        opens=st.lists(st.booleans(), max_size=8),
    )
    def fire_as_they_are_read(self, up_to, most, stops_after, opens):
        self.fire_all(STATES[0], Domain.EVENT, up_to, most, stops_after, opens)


TestRead = ReadMachine.TestCase
TestRead.settings = settings(
    max_examples=30, stateful_step_count=25, deadline=None, report_multiple_bugs=False
)
TestRounds = RoundMachine.TestCase
TestRounds.settings = settings(
    max_examples=15, stateful_step_count=60, deadline=None, report_multiple_bugs=False
)
TestKept = KeptMachine.TestCase
TestKept.settings = settings(
    max_examples=15, stateful_step_count=60, deadline=None, report_multiple_bugs=False
)
TestUnwritten = UnwrittenMachine.TestCase
TestUnwritten.settings = settings(
    max_examples=20, stateful_step_count=60, deadline=None, report_multiple_bugs=False
)
