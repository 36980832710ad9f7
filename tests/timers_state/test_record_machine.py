"""Keys that are records, or were, read what a dict would read that is copied at every commit."""

from __future__ import annotations

import shutil
import tempfile
from copy import deepcopy
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tests.support.small_items import bag_with, set_with
from timers_state import Domain, Layout, MemoryStore, Overlay, RoundStore, open_store
from timers_state.cells.bag import Bag
from timers_state.cells.set import Set
from timers_state.cells.value import Combining, Value
from timers_state.large.scope import SCOPE_BYTES
from timers_state.overlay.residence import ABSENT_BYTES

STATE = 7
LAYOUT = Layout(((Value, b"v"), (Combining, b"c"), (Bag, b"b"), (Set, b"s")), (b"f", b"g"))
KEYS = [b"", b"a", b"b\x00", b"long" * 30]
WINDOWS = [b"", b"w\x00"]
EMPTY = [None] * 8
OTHERS = [
    (Domain.EVENT, b"f", b"tag"),
    (Domain.PROCESSING, b"c", b""),
    (Domain.PROCESSING, b"c", b"tag"),
    (Domain.HOLD, b"c", b""),
]

keys = st.sampled_from(KEYS)
windows = st.sampled_from(WINDOWS)
times = st.integers(-3, 8)
payloads = st.sampled_from([b"", b"pane", b"p" * 200])
values = st.sampled_from([b"", b"1", b"22", b"x" * 300])
many = st.sampled_from([[b"%d" % n for n in range(some)] for some in (20, 90)])
added = many | st.lists(st.sampled_from([b"", b"1", b"y" * 100]), min_size=1, max_size=3)
changes = st.one_of(
    st.tuples(st.just("value"), st.sampled_from([0, 1]), st.none() | values),
    st.tuples(st.just("bag"), st.just(2), st.none() | added),
    st.tuples(st.just("set"), st.just(3), st.none() | added),
    st.tuples(st.just("timer"), st.sampled_from([4, 5]), st.none() | st.tuples(times, payloads)),
    st.tuples(
        st.just("other"), st.sampled_from(OTHERS[:-1]), st.none() | st.tuples(times, payloads)
    ),
    # What holds has no payload.
    st.tuples(st.just("other"), st.just(OTHERS[-1]), st.none() | st.tuples(times, st.just(b""))),
)
needs = st.sampled_from([Overlay.flush, lambda overlay: overlay.room.let_go(1 << 20)])
turns = st.lists(st.tuples(windows, changes), min_size=1, max_size=6)


class RecordMachine(RuleBasedStateMachine):
    """Values: 0, 1; a bag: 2; a set: 3; timers: 4, 5, as (time, payload); end of the window: 6;
    other timers: 7, by name."""

    def __init__(self):
        super().__init__()
        self.directory = Path(tempfile.mkdtemp(prefix="records-"))
        self.overlays = [
            Overlay(MemoryStore(), 1 << 30),
            Overlay(RoundStore(self.directory / "small"), 4000),
            Overlay(RoundStore(self.directory / "none"), 0),
            Overlay(open_store(self.directory / "some"), 12_000),
        ]
        self.model = {}
        self.committed = {}
        self.snapshots = 0

    def teardown(self):
        for overlay in self.overlays:
            overlay.close()
        shutil.rmtree(self.directory)

    @initialize()
    def open_records(self):
        for overlay in self.overlays:
            overlay.records(STATE, LAYOUT)

    # --- turns of keys ------------------------------------------------------------------------

    @rule(key=keys, made=turns, expiry=times)
    def have_a_turn(self, key, made, expiry):
        self.turn(key, made, expiry)

    @rule(key=keys, made=turns, expiry=times, need=needs)
    def have_a_turn_while_others_need_room(self, key, made, expiry, need):
        self.turn(key, made, expiry, need)

    @rule(two=st.permutations(KEYS), made=turns, others=turns, expiry=times, need=needs)
    def have_turns_beside_each_other(self, two, made, others, expiry, need):
        key, other, *_ = two
        self.change_model_in_turn(other, others, expiry)

        def meanwhile(overlay):
            need(overlay)
            self.turn_in(overlay, other, others, expiry, need)

        self.turn(key, made, expiry, meanwhile, beside=True)

    @rule(
        two=st.permutations(KEYS),
        made=turns,
        others=turns,
        expiry=times,
        need=needs,
        commits=st.booleans(),
    )
    def have_a_turn_whose_changes_come_a_round_later(
        self, two, made, others, expiry, need, commits
    ):
        key, other, *_ = two
        changes = [self.turn_apart(overlay, key, made, expiry) for overlay in self.overlays]
        self.turn(other, others, expiry, need)
        self.nothing_is_due_of_keys_that_are_hidden(key, changes)
        self.end_a_round(commits=commits)
        if not commits:
            assert not any(o.records(STATE, LAYOUT).hidden for o in self.overlays)
            return
        self.everything_is_there()
        self.nothing_is_due_of_keys_that_are_hidden(key, changes)
        self.change_model_in_turn(key, made, expiry)
        for overlay, changed in zip(self.overlays, changes, strict=True):
            need(overlay)
            if changed is None:
                self.turn_in(overlay, key, made, expiry, need)
                continue
            records = overlay.records(STATE, LAYOUT)
            records.put(key, changed)
            records.show(key)
            records.beside.discard(key)

    def turn_apart(self, overlay, key, made, expiry):
        """What a turn changes in copies of a key, which is hidden; None if the key is large."""
        records = overlay.records(STATE, LAYOUT)
        if records.begin(key) is None and not records.takes(key):
            return None
        records.beside.add(key)
        records.hide(key)
        apart = records.apart()
        apart.take_in(records.copies(key))
        self.change_records(apart, key, made, expiry, lambda: None)
        return apart.take_changes()

    def nothing_is_due_of_keys_that_are_hidden(self, key, changes):
        for overlay, changed in zip(self.overlays, changes, strict=True):
            if changed is not None:
                assert not any(overlay.next_due(STATE, domain, 9) == key for domain in Domain)

    def turn(self, key, made, expiry, need=lambda _: None, *, beside=False):
        self.change_model_in_turn(key, made, expiry)
        for overlay in self.overlays:
            self.turn_in(overlay, key, made, expiry, need, beside=beside)

    def change_model_in_turn(self, key, made, expiry):
        for window, (what, number, change) in made:
            self.change_model(key, window, what, number, change, expiry)

    def turn_in(self, overlay, key, made, expiry, need, *, beside=False):
        records = overlay.records(STATE, LAYOUT)
        head = records.begin(key)
        if head is None and not records.takes(key):
            if beside:
                need(overlay)
            self.change_scope(overlay.scope(STATE, key), key, {w for w, _ in made})
            return
        if not beside:
            self.change_records(records, key, made, expiry, lambda: need(overlay))
            return
        # Another key has its turn after the first change, amid this one's.
        records.beside.add(key)
        needs_more = [need]
        self.change_records(
            records, key, made, expiry, lambda: needs_more and needs_more.pop()(overlay)
        )
        records.beside.discard(key)

    def change_model(self, key, window, what, number, change, expiry):
        content = self.model.setdefault((key, window), list(EMPTY))
        if what == "bag" and change is not None:
            change = (*(content[number] or ()), *change)
        if what == "set" and change is not None:
            change = {*(content[number] or ()), *change}
        if what == "other":
            others = {**(content[7] or {}), number: change}
            number, change = 7, {n: timer for n, timer in others.items() if timer} or None
        content[number] = change
        if all(part is None for part in (*content[:6], content[7])):
            del self.model[key, window]
        elif content[6] is None:
            content[6] = expiry

    def change_records(self, records, key, made, expiry, meanwhile):
        known = {}
        for window, (what, number, change) in made:
            record = known.get(window) or self.find(records, key, window)
            record = known[window] = record or records.add(key, window)
            meanwhile()
            if what == "value":
                records.put_value(record, number, change)
            elif what in {"timer", "other"}:
                self.change_timer(records, record, number, change)
            elif change is None:
                records.replace_items(record, number, None)
            else:
                add = bag_with if what == "bag" else set_with
                records.replace_items(record, number, add(record.values[number], change))
            empty = all(part is None for part in (*record.values, *record.times))
            if record.expiry is None and not (empty and not record.others):
                records.expire_at(record, expiry)
            meanwhile()
            records.end(record)

    def change_timer(self, records, record, number, change):
        if number in OTHERS:
            if change is None:
                records.clear_other(record, number)
            else:
                records.set_other(record, number, *change)
        elif change is None:
            records.clear_timer(record, number - 4)
        else:
            records.set_timer(record, number - 4, *change)

    def change_scope(self, scope, key, touched):
        """To what the model has."""
        for window in touched:
            content = self.model.get((key, window), EMPTY)
            for cell, value in zip(
                (scope.value(b"v", window), scope.combining(b"c", window)), content, strict=False
            ):
                if value is None:
                    cell.clear()
                else:
                    cell.set(value)
            bag, items = scope.bag(b"b", window), list(content[2] or ())
            there = list(bag.read())
            if items[: len(there)] != there:
                bag.clear()
                there = []
            bag.extend(items[len(there) :])
            cell, items = scope.set(b"s", window), content[3] or set()
            if not set(cell.read()) <= items:
                cell.clear()
            for item in items:
                cell.add(item)
            names = [(Domain.EVENT, b"f", b""), (Domain.EVENT, b"g", b""), *OTHERS]
            of_names = [*content[4:6], *map((content[7] or {}).get, OTHERS)]
            for (domain, family, tag), timer in zip(names, of_names, strict=True):
                if timer is None:
                    scope.timers(domain).clear(family, tag, window)
                else:
                    scope.timers(domain).set(timer[0], family, tag, window, timer[1])
            if content[6] is None:
                scope.timers(Domain.EXPIRY).clear(b"", b"", window)
            else:
                scope.timers(Domain.EXPIRY).set(content[6], b"", b"", window)

    def find(self, records, key, window):
        record = records.heads.get(key)
        while record is not None and record.window != window:
            record = record.more
        return record

    @rule(up_to=times, most=st.integers(1, 4))
    def fire_what_is_due(self, up_to, most):
        """The order of equal times is free, so that what fires is told by the first overlay."""
        for _ in range(most):
            key = self.overlays[0].next_due(STATE, Domain.EVENT, up_to)
            due = {
                place: sorted(
                    (time, what, number)
                    for what, number, (time, _) in self.event_timers(content)
                    if time <= up_to
                )
                for place, content in self.model.items()
            }
            if key is None:
                assert not any(due.values())
                return
            for window in WINDOWS:
                for _, what, number in due.get((key, window), ()):
                    self.turn(key, [(window, (what, number, None))], 0)

    def event_timers(self, content):
        found = [("timer", number, content[number]) for number in (4, 5) if content[number]]
        others = (content[7] or {}).items()
        return found + [("other", n, timer) for n, timer in others if n[0] is Domain.EVENT]

    @rule(key=keys)
    def take_a_key_over(self, key):
        for overlay in self.overlays:
            scope = overlay.scope(STATE, key)
            for window in WINDOWS:
                self.agree_with_scope(scope, key, window)

    @rule(key=keys)
    def forget_a_key(self, key):
        for window in WINDOWS:
            self.model.pop((key, window), None)
        for overlay in self.overlays:
            overlay.forget(STATE, key)

    @rule(asked=st.lists(keys, max_size=4))
    def prefetch(self, asked):
        for overlay in self.overlays:
            assert 0 <= overlay.prefetch(STATE, asked) <= len(asked)

    # --- rounds -------------------------------------------------------------------------------

    @rule(commits=st.booleans())
    def end_a_round(self, commits):
        for overlay in self.overlays:
            overlay.prepare()
            if commits:
                overlay.commit()
            else:
                overlay.rollback()
        if commits:
            self.committed = deepcopy(self.model)
        else:
            self.model = deepcopy(self.committed)

    @rule()
    def take_back_a_round_that_runs(self):
        for overlay in self.overlays:
            overlay.rollback()
        self.model = deepcopy(self.committed)

    @rule()
    def flush(self):
        for overlay in self.overlays:
            overlay.flush()

    @rule()
    def let_go_of_what_rests(self):
        for overlay in self.overlays:
            overlay.room.let_go(1 << 20)

    @rule(goes_on=st.booleans())
    def make_a_snapshot(self, goes_on):
        for overlay in self.overlays:
            overlay.rollback()
        self.model = deepcopy(self.committed)
        self.snapshots += 1
        for at, take_up, budget in ((1, RoundStore.take_up, 4000), (3, open_store, 12_000)):
            directory = self.directory / f"snapshot-{at}-{self.snapshots}"
            self.overlays[at].snapshot(directory)
            if goes_on:
                self.overlays[at].close()
                self.overlays[at] = Overlay(take_up(directory), budget)
                self.overlays[at].records(STATE, LAYOUT)

    @rule(made=st.lists(st.tuples(keys, turns), min_size=1, max_size=3), expiry=times)
    def go_to_the_store_and_come_back(self, made, expiry):
        for key, changed in made:
            self.turn(key, changed, expiry)
        self.end_a_round(commits=True)
        for overlay in self.overlays:
            overlay.room.let_go(1 << 40)
        self.prefetch([key for key, _ in made])
        for key, _ in made:
            self.turn(key, [], expiry)

    # --- what has to hold ---------------------------------------------------------------------

    @invariant()
    def everything_is_there(self):
        for overlay in self.overlays:
            records = overlay.records(STATE, LAYOUT)
            for key in KEYS:
                for window in WINDOWS:
                    if key in records.heads:
                        record = self.find(records, key, window)
                        found = EMPTY if record is None else self.content(record)
                        assert found == self.model.get((key, window), EMPTY)
            assert not records.heads.keys() & {key for _, key in overlay._residence.scopes}

    def content(self, record):
        timers = [
            None if time is None else (time, payload)
            for time, payload in zip(record.times, record.payloads, strict=True)
        ]
        value, accumulator, bag, items = record.values
        bag = None if bag is None else tuple(bag[1])
        items = None if items is None else set(items[1])
        return [value, accumulator, bag, items, *timers, record.expiry, record.others or None]

    def agree_with_scope(self, scope, key, window):
        content = self.model.get((key, window), EMPTY)
        assert scope.value(b"v", window).get() == content[0]
        assert scope.combining(b"c", window).get() == content[1]
        assert tuple(scope.bag(b"b", window).read()) == (content[2] or ())
        assert set(scope.set(b"s", window).read()) == (content[3] or set())
        for family, timer in zip((b"f", b"g"), content[4:6], strict=True):
            time = scope.timers(Domain.EVENT).time_of(family, b"", window)
            assert time == (timer and timer[0])
        assert scope.timers(Domain.EXPIRY).time_of(b"", b"", window) == content[6]
        for domain, family, tag in OTHERS:
            timer = (content[7] or {}).get((domain, family, tag))
            assert scope.timers(domain).time_of(family, tag, window) == (timer and timer[0])

    def times(self):
        return {
            **{
                domain: [
                    timer[0]
                    for content in self.model.values()
                    for name, timer in (content[7] or {}).items()
                    if name[0] is domain
                ]
                for domain in (Domain.PROCESSING, Domain.HOLD)
            },
            Domain.EVENT: [t[0] for c in self.model.values() for _, _, t in self.event_timers(c)],
            Domain.EXPIRY: [c[6] for c in self.model.values() if c[6] is not None],
        }

    @rule()
    def first_timers_are_found(self):
        for overlay in self.overlays:
            for domain, all_times in self.times().items():
                assert overlay.first_time(STATE, domain) == min(all_times, default=None)

    @invariant()
    def timers_that_are_due_are_found(self):
        for overlay in self.overlays:
            for domain, all_times in self.times().items():
                first = overlay.first_time(STATE, domain, 3)
                least = min(all_times, default=None)
                if first is None or least is None or first <= 3:
                    assert first == least
                else:
                    assert first <= least
                assert overlay.count_timers(STATE, domain) == len(all_times)
                due = overlay.next_due(STATE, domain, 3)
                assert (due is None) == (min(all_times, default=4) > 3)

    @invariant()
    def the_budget_is_accounted_for(self):
        for overlay in self.overlays:
            records = overlay.records(STATE, LAYOUT)
            leased = (
                sum(scope.leased for scope in overlay._residence.scopes.values()) + records.leased
            )
            erased = sum(SCOPE_BYTES + len(key) for _, key in overlay._residence.erased)
            images = overlay.running.image_bytes
            images += ABSENT_BYTES * sum(map(len, overlay._residence._absent.values()))
            assert overlay._budget.free + leased + erased + images == overlay._budget.size
            cost = sum(records._cost_of(record) for record in records.all())
            assert records.leased == records.room + cost + records.aside_bytes


TestRecords = RecordMachine.TestCase
TestRecords.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
