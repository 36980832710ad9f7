"""A small key reads what a large key reads that was changed in the same way."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from timers_state import Layout, MemoryStore, Overlay
from timers_state.cells.bag import Bag
from timers_state.cells.map import Map
from timers_state.cells.multimap import Multimap
from timers_state.cells.ordered_list import OrderedList
from timers_state.cells.set import Set
from timers_state.keys import I64_MAX, I64_MIN
from timers_state.large.key import LargeKey
from timers_state.small.kinds import SMALL_CELLS

SMALL, LARGE = 1, 2
KINDS = {Bag: b"bag", Set: b"set", OrderedList: b"list", Map: b"map", Multimap: b"many"}
LAYOUT = Layout(tuple(KINDS.items()), ())
KEYS = (b"k", b"key")

items = st.sampled_from([b"", b"1", b"2", b"3" * 40, b"x" * 300])
numbers = st.sampled_from([I64_MIN, -2, 0, 1, 2, 3, I64_MAX])
limits = st.sampled_from([I64_MIN, 0, 2, 3, I64_MAX + 1])


def said(name, *arguments):
    return st.tuples(st.just(name), st.tuples(*arguments))


CHANGES = {
    Bag: said("append", items) | said("clear"),
    Set: said("add", items) | said("clear"),
    OrderedList: said("append", numbers, items)
    | said("clear_range", limits, limits)
    | said("clear"),
    Map: said("put", items, items) | said("remove", items) | said("clear"),
    Multimap: said("put", items, items) | said("remove", items) | said("clear"),
}
READS = {
    Bag: [("read", ())],
    Set: [("read", ())],
    OrderedList: [("read", ()), ("read", (0, 3)), ("read", (2, I64_MAX + 1)), ("read", (3, 0))],
    Map: [("items", ()), ("keys", ()), ("get", (b"1",)), ("get", (b"none",))],
    Multimap: [("keys", ()), ("get", (b"1",)), ("get", (b"none",))],
}
kinds = st.sampled_from(list(KINDS))
changes = kinds.flatmap(lambda kind: st.tuples(st.just(kind), CHANGES[kind]))


class Turn:
    """Small cells of whatever record has its turn."""

    def __init__(self, overlay):
        self.records = overlay.records(SMALL, LAYOUT)
        self.record = None
        self.outgrown = False
        self.cells = {kind: SMALL_CELLS[kind](self, n) for n, kind in enumerate(KINDS)}

    def outgrow(self):
        self.outgrown = True

    def keep(self):
        pass


class SmallAndLarge(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.overlay = Overlay(MemoryStore(), 1 << 30)
        self.turn = Turn(self.overlay)
        self.of_scope = self.key_with_kinds(SMALL)
        self.large = self.key_with_kinds(LARGE)

    def key_with_kinds(self, state):
        key = LargeKey(self.overlay, state)
        for kind, tag in KINDS.items():
            key.add_state(kind, tag)
        return key

    @rule(key=st.sampled_from(KEYS), made=st.lists(changes, min_size=1, max_size=8))
    def have_a_turn(self, key, made):
        turn, records = self.turn, self.turn.records
        self.large.begin(key)
        is_small = records.begin(key) is not None or records.takes(key)
        if is_small:
            turn.record = records.heads.get(key) or records.add(key, b"")
            for cell in turn.cells.values():
                cell.renew()
        else:
            self.of_scope.begin(key)
        for number, kind in enumerate(KINDS):
            for told in made:
                if told[0] is kind:
                    name, arguments = told[1]
                    small = turn.cells[kind] if is_small else self.of_scope.cell(number)
                    getattr(small, name)(*arguments)
                    large = self.large.cell(number)
                    getattr(large, name)(*arguments)
                    self.alike(kind, small, large)
        if is_small:
            for cell in turn.cells.values():
                if cell.is_changed:
                    cell.store()
            records.end(turn.record)

    def alike(self, kind, small, large):
        for name, arguments in READS[kind]:
            found, wanted = (getattr(cell, name)(*arguments) for cell in (small, large))
            if not isinstance(wanted, bytes | None):
                found, wanted = list(found), list(wanted)
            assert found == wanted

    @rule(commits=st.booleans())
    def end_a_round(self, commits):
        self.overlay.prepare()
        if commits:
            self.overlay.commit()
        else:
            self.overlay.rollback()

    @rule()
    def flush(self):
        self.turn.records.begin(b"nobody's")
        self.overlay.flush()

    @rule(comes_back=st.booleans(), leaves=st.booleans())
    def go_to_the_store(self, comes_back, leaves):
        """What is written is what differs from what was written before."""
        self.end_a_round(commits=True)
        self.turn.records.begin(b"nobody's")
        self.of_scope.begin(b"")  # a scope that the test holds is no record when it comes back
        self.large.begin(b"")
        self.overlay.room.let_go(1 << 40)
        if comes_back:
            self.overlay.prefetch(SMALL, list(KEYS))
        if leaves:
            self.are_alike_in_scopes()

    def are_alike_in_scopes(self):
        for key in KEYS:
            self.of_scope.begin(key)
            self.large.begin(key)
            for number, kind in enumerate(KINDS):
                self.alike(kind, self.of_scope.cell(number), self.large.cell(number))
        self.of_scope.begin(b"")

    @precondition(lambda self: self.turn.records.heads)
    @rule()
    def outgrow_records(self):
        self.are_alike_in_scopes()

    @invariant()
    def keys_are_alike(self):
        records = self.turn.records
        for key in KEYS:
            record = records.heads.get(key)
            if record is None:
                continue
            self.large.begin(key)
            self.turn.record = record
            for number, kind in enumerate(KINDS):
                cell = self.turn.cells[kind]
                cell.renew()
                self.alike(kind, cell, self.large.cell(number))

    @invariant()
    def the_budget_is_accounted_for(self):
        records = self.turn.records
        cost = sum(records._cost_of(record) for record in records.all())
        assert records.leased == records.room + cost + records.aside_bytes


TestSmallAndLarge = SmallAndLarge.TestCase
TestSmallAndLarge.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)


FILLS = {
    Bag: [("append", (b"1",)), ("append", (b"2",))],
    Set: [("add", (b"1",)), ("add", (b"2",))],
    OrderedList: [("append", (number, b"1")) for number in (3, 1, 2, 1)],
    Map: [("put", (b"1", b"1")), ("put", (b"2", b"1"))],
    Multimap: [("put", (key, b"1")) for key in (b"1", b"2", b"1")],
}
THEN = {
    Bag: [[("append", (b"3",))], [("clear", ())]],
    Set: [[("add", (b"3",))], [("clear", ())]],
    OrderedList: [
        [("append", (1, b"3"))],
        [("append", (-1, b"3"))],
        [("clear_range", (1, 2))],
        [("clear_range", (1, 2)), ("append", (1, b"3"))],
        [("clear", ())],
    ],
    Map: [[("put", (b"1", b"3"))], [("remove", (b"1",))], [("clear", ())]],
    Multimap: [
        [("put", (b"1", b"3"))],
        [("remove", (b"1",))],
        [("remove", (b"1",)), ("put", (b"1", b"3"))],
        [("clear", ())],
    ],
}


@pytest.mark.parametrize("commits", [True, False])
@pytest.mark.parametrize(
    ("kind", "then"), [(kind, then) for kind, all_ in THEN.items() for then in all_]
)
def test_what_differs_is_written_or_taken_back(kind, then, commits):
    both = SmallAndLarge()
    both.have_a_turn(b"k", [(kind, change) for change in FILLS[kind]])
    both.go_to_the_store(comes_back=True, leaves=False)
    both.have_a_turn(b"k", [(kind, change) for change in then])
    both.keys_are_alike()
    both.end_a_round(commits=commits)
    both.keys_are_alike()
    both.go_to_the_store(comes_back=True, leaves=False)
    both.keys_are_alike()
    both.have_a_turn(b"k", [(kind, change) for change in [*FILLS[kind], *then]])
    both.go_to_the_store(comes_back=False, leaves=True)


def test_many_items_are_too_many_for_a_record():
    for kind, tag in KINDS.items():
        overlay = Overlay(MemoryStore(), 1 << 30)
        turn = Turn(overlay)
        turn.records.begin(b"k")
        turn.record = turn.records.add(b"k", b"")
        cell = turn.cells[kind]
        cell.renew()
        items = [b"%d" % number + b"x" * 10 for number in range(1000)]
        for number, item in enumerate(items):
            if kind in {Map, Multimap}:
                cell.put(item, item)
            elif kind is OrderedList:
                cell.append(number, item)
            else:
                (cell.add if kind is Set else cell.append)(item)
            if turn.outgrown:
                break
        cell.store()
        assert turn.outgrown, kind
        large = overlay.scope(SMALL, b"k").cell(kind, tag, b"")
        assert len(list((large.keys if kind in {Map, Multimap} else large.read)())) == number + 1
