"""Any sequence of calls, on any store, within any budget, reads what a dict would read."""

from __future__ import annotations

import shutil
import tempfile
from collections import defaultdict
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from timers_state import Domain, MemoryStore, Overlay, RoundStore, inspect, open_store
from timers_state.errors import StaleScope, StoreClosed

KEYS = [b"", b"a", b"a\x00", b"\xff"]
WINDOWS = [b"", b"w", b"w\x00"]
TAGS = [b"t", b"u"]
STATES = [0, 2**32 - 1]

keys = st.tuples(st.sampled_from(STATES), st.sampled_from(KEYS))
places = st.tuples(keys, st.sampled_from(WINDOWS), st.sampled_from(TAGS))
items = st.sampled_from([b"", b"\x00", b"\x00\x01", b"x", b"y" * 40, b"z" * 300])
names = st.sampled_from([b"", b"\x00", b"k", b"k\x00", b"l"])
numbers = st.one_of(st.integers(-3, 3), st.sampled_from([-(2**63), 2**63 - 1]))
bounds = st.one_of(st.integers(-4, 4), st.sampled_from([-(2**63), 2**63]))
domains = st.sampled_from(Domain)
timer_names = st.tuples(st.sampled_from(WINDOWS), st.sampled_from([b"f", b"g"]), names)


class Model:
    """One key: what its cells and timers hold."""

    def __init__(self):
        self.values = {}
        self.accumulators = {}
        self.bags = defaultdict(list)
        self.sets = defaultdict(set)
        self.maps = defaultdict(dict)
        self.multimaps = defaultdict(lambda: defaultdict(list))
        self.lists = defaultdict(list)
        self.timers = {}

    def forget_window(self, window):
        for cells in (self.values, self.accumulators, self.bags, self.sets, self.maps):
            drop_window(cells, window)
        for cells in (self.multimaps, self.lists):
            drop_window(cells, window)
        for domain, name in list(self.timers):
            if name[0] == window:
                del self.timers[domain, name]

    def due(self, domain, up_to):
        return sorted(
            (time, *name, payload)
            for (found, name), (time, payload) in self.timers.items()
            if found == domain and time <= up_to
        )


def drop_window(cells, window):
    for place in list(cells):
        if place[0] == window:
            del cells[place]


class OverlayMachine(RuleBasedStateMachine):
    """Several overlays do the same; each must agree with the model at every read."""

    iterators = Bundle("iterators")

    def __init__(self):
        super().__init__()
        self.directory = Path(tempfile.mkdtemp(prefix="timers-state-"))
        self.overlays = [
            Overlay(MemoryStore(), 1 << 30),
            Overlay(MemoryStore(), 3000),
            Overlay(RoundStore(self.directory / "scratch"), 0),
            Overlay(open_store(self.directory / "store"), 6000),
        ]
        self.model = defaultdict(Model)
        self.kept = {}
        self.openings = 0
        self.graveyard = []

    def teardown(self):
        for overlay in self.overlays:
            overlay.close()
        shutil.rmtree(self.directory)

    def cells(self, kind, place):
        """The cell in every overlay: asked for, or the object that somebody kept."""
        key, window, tag = place
        if (kind, place) in self.kept:
            return self.kept[kind, place]
        tag = kind.encode() + tag
        return [getattr(overlay.scope(*key), kind)(tag, window) for overlay in self.overlays]

    def timers(self, key, domain):
        return [overlay.scope(*key).timers(domain) for overlay in self.overlays]

    def agree(self, found, expected):
        for result in found:
            assert result == expected

    @rule(
        kind=st.sampled_from(
            ["value", "combining", "bag", "set", "map", "multimap", "ordered_list"]
        ),
        place=places,
    )
    def keep_a_cell(self, kind, place):
        self.kept[kind, place] = self.cells(kind, place)

    @rule()
    def let_go_of_kept_cells(self):
        self.kept.clear()

    @rule(place=places, item=items)
    def set_a_value(self, place, item):
        for cell in self.cells("value", place):
            cell.set(item)
        self.model[place[0]].values[place[1:]] = item

    @rule(place=places)
    def read_or_clear_a_value(self, place):
        expected = self.model[place[0]].values.get(place[1:])
        self.agree([cell.get() for cell in self.cells("value", place)], expected)

    @rule(place=places)
    def clear_a_value(self, place):
        for cell in self.cells("value", place):
            cell.clear()
        self.model[place[0]].values.pop(place[1:], None)

    @rule(place=places, item=items)
    def add_to_an_accumulator(self, place, item):
        cells = self.cells("combining", place)
        before = self.model[place[0]].accumulators.get(place[1:], b"")
        self.agree([cell.get() or b"" for cell in cells], before)
        for cell in cells:
            cell.set((before + item)[-500:])
        self.model[place[0]].accumulators[place[1:]] = (before + item)[-500:]

    @rule(place=places, added=st.lists(items, min_size=1, max_size=4))
    def append_to_a_bag(self, place, added):
        for cell in self.cells("bag", place):
            cell.append(added[0])
            cell.extend(added[1:])
        self.model[place[0]].bags[place[1:]] += added

    @rule(place=places)
    def read_a_bag(self, place):
        expected = self.model[place[0]].bags[place[1:]]
        cells = self.cells("bag", place)
        self.agree([list(cell.read()) for cell in cells], expected)

    @rule(place=places, item=items)
    def add_to_a_set(self, place, item):
        for cell in self.cells("set", place):
            cell.add(item)
        self.model[place[0]].sets[place[1:]].add(item)

    @rule(place=places, item=items)
    def remove_from_a_set(self, place, item):
        for cell in self.cells("set", place):
            cell.remove(item)
        self.model[place[0]].sets[place[1:]].discard(item)

    @rule(place=places, item=items)
    def read_a_set(self, place, item):
        expected = self.model[place[0]].sets[place[1:]]
        cells = self.cells("set", place)
        self.agree([cell.contains(item) for cell in cells], item in expected)
        self.agree([list(cell.read()) for cell in cells], sorted(expected))

    @rule(place=places, name=names, item=items)
    def put_into_a_map(self, place, name, item):
        for cell in self.cells("map", place):
            cell.put(name, item)
        self.model[place[0]].maps[place[1:]][name] = item

    @rule(place=places, name=names)
    def remove_from_a_map(self, place, name):
        for cell in self.cells("map", place):
            cell.remove(name)
        self.model[place[0]].maps[place[1:]].pop(name, None)

    @rule(place=places, name=names)
    def read_a_map(self, place, name):
        expected = self.model[place[0]].maps[place[1:]]
        cells = self.cells("map", place)
        self.agree([cell.get(name) for cell in cells], expected.get(name))
        self.agree([list(cell.items()) for cell in cells], sorted(expected.items()))
        self.agree([list(cell.keys()) for cell in cells], sorted(expected))

    @rule(place=places, name=names, item=items)
    def put_into_a_multimap(self, place, name, item):
        for cell in self.cells("multimap", place):
            cell.put(name, item)
        self.model[place[0]].multimaps[place[1:]][name].append(item)

    @rule(place=places, name=names)
    def remove_from_a_multimap(self, place, name):
        for cell in self.cells("multimap", place):
            cell.remove(name)
        self.model[place[0]].multimaps[place[1:]].pop(name, None)

    @rule(place=places, name=names)
    def read_a_multimap(self, place, name):
        expected = self.model[place[0]].multimaps[place[1:]]
        cells = self.cells("multimap", place)
        self.agree([list(cell.get(name)) for cell in cells], expected.get(name, []))
        self.agree([list(cell.keys()) for cell in cells], sorted(expected))

    @rule(place=places, number=numbers, item=items)
    def append_to_an_ordered_list(self, place, number, item):
        for cell in self.cells("ordered_list", place):
            cell.append(number, item)
        self.model[place[0]].lists[place[1:]].append((number, item))

    @rule(place=places, lower=bounds, upper=bounds)
    def clear_a_range_of_an_ordered_list(self, place, lower, upper):
        for cell in self.cells("ordered_list", place):
            cell.clear_range(lower, upper)
        elements = self.model[place[0]].lists[place[1:]]
        elements[:] = [element for element in elements if not lower <= element[0] < upper]

    @rule(place=places, lower=bounds, upper=bounds)
    def read_a_range_of_an_ordered_list(self, place, lower, upper):
        elements = self.model[place[0]].lists[place[1:]]
        expected = sorted(elements, key=lambda element: element[0])
        cells = self.cells("ordered_list", place)
        self.agree([list(cell.read()) for cell in cells], expected)
        part = [element for element in expected if lower <= element[0] < upper]
        self.agree([list(cell.read(lower, upper)) for cell in cells], part)

    @rule(kind=st.sampled_from(["bag", "set", "map", "multimap", "ordered_list"]), place=places)
    def clear_a_cell(self, kind, place):
        for cell in self.cells(kind, place):
            cell.clear()
        model = self.model[place[0]]
        plural = "lists" if kind == "ordered_list" else f"{kind}s"
        getattr(model, plural).pop(place[1:], None)

    @rule(target=iterators, place=places)
    def begin_to_read(self, place):
        model = self.model[place[0]]
        expected = [
            list(model.bags[place[1:]]),
            sorted(model.sets[place[1:]]),
            sorted(model.maps[place[1:]].items()),
            sorted(model.lists[place[1:]], key=lambda element: element[0]),
        ]
        running = [
            [cell.read() for cell in self.cells("bag", place)],
            [cell.read() for cell in self.cells("set", place)],
            [cell.items() for cell in self.cells("map", place)],
            [cell.read() for cell in self.cells("ordered_list", place)],
        ]
        return self.openings, list(zip(running, expected, strict=True))

    @rule(begun=consumes(iterators))
    def what_was_begun_shows_no_later_change(self, begun):
        openings, reads = begun
        for running, expected in reads:
            self.agree([list(iterator) for iterator in running[:-1]], expected)
            try:
                assert list(running[-1]) == expected
            except StoreClosed:
                assert openings < self.openings

    @rule(key=keys, domain=domains, name=timer_names, time=numbers, payload=items)
    def set_a_timer(self, key, domain, name, time, payload):
        self.set_one(key, domain, name, time, payload)

    def set_one(self, key, domain, name, time, payload):
        window, family, tag = name
        for timers in self.timers(key, domain):
            timers.set(time, family, tag, window, payload)
        self.model[key].timers[domain, name] = (time, payload)

    @rule(key=keys, domain=domains, name=timer_names)
    def clear_a_timer(self, key, domain, name):
        self.clear_one(key, domain, name)

    def clear_one(self, key, domain, name):
        window, family, tag = name
        for timers in self.timers(key, domain):
            timers.clear(family, tag, window)
        self.model[key].timers.pop((domain, name), None)

    @rule(key=keys, domain=domains, name=timer_names)
    def look_at_timers(self, key, domain, name):
        window, family, tag = name
        found = [timers.time_of(family, tag, window) for timers in self.timers(key, domain)]
        self.agree(found, self.model[key].timers.get((domain, name), (None,))[0])
        due = self.model[key].due(domain, 2**63)
        found = [timers.next_time() for timers in self.timers(key, domain)]
        self.agree(found, due[0][0] if due else None)

    @rule(key=keys, domain=domains, up_to=numbers, most=st.integers(1, 6))
    def fire_timers(self, key, domain, up_to, most):
        expected = self.model[key].due(domain, up_to)[:most]
        every = self.timers(key, domain)
        for timer in expected:
            self.agree([tuple(timers.pop_due(up_to)) for timers in every], timer)
            del self.model[key].timers[domain, timer[1:4]]
        if len(expected) < most:
            self.agree([timers.pop_due(up_to) for timers in every], None)

    @rule(key=keys, window=st.sampled_from(WINDOWS))
    def forget_a_window(self, key, window):
        for overlay in self.overlays:
            overlay.scope(*key).forget_window(window)
        self.model[key].forget_window(window)
        for kind, place in list(self.kept):
            if place[:2] == (key, window):
                self.graveyard.append(self.kept.pop((kind, place)))

    @rule(key=keys)
    def forget_a_key(self, key):
        for overlay in self.overlays:
            scope = overlay.scope(*key)
            self.graveyard += [scope, scope.timers(Domain.EVENT), scope.bag(b"stale")]
            overlay.forget(*key)
            with pytest.raises(StaleScope):
                self.graveyard[-1].append(b"")
        self.model.pop(key, None)
        for kind, place in list(self.kept):
            if place[0] == key:
                self.graveyard.append(self.kept.pop((kind, place)))

    @rule()
    def flush(self):
        for overlay in self.overlays:
            overlay.flush()

    @rule(budget=st.sampled_from([0, 3000, 1 << 30]))
    def close_and_open_again(self, budget):
        self.kept.clear()
        self.openings += 1
        self.overlays[-1].prepare()
        self.overlays[-1].commit()  # else the store goes back to where the round began
        self.overlays[-1].flush()
        self.overlays[-1].close()
        self.overlays[-1] = Overlay(open_store(self.directory / "store"), budget)

    @rule()
    def a_flushed_store_has_a_time_row_for_every_tag_row(self):
        for overlay in self.overlays:
            overlay.flush()
            entries = [entry for entry in inspect.entries(overlay.store) if "timer" in entry.kind]
            found = sorted(
                (entry.state_id, entry.key, entry.window, entry.tag, entry.part, entry.time)
                for entry in entries
            )
            expected = sorted(
                (*key, *name, time)
                for key, model in self.model.items()
                for (_, name), (time, _) in model.timers.items()
            )
            assert found == expected
            times = list(overlay.store.iterate_rows(b"\x02", b"\x03"))
            assert len(times) == len(expected)

    @invariant()
    def only_active_scopes_have_room(self):
        for overlay in self.overlays:
            assert all(
                scope.active == (scope.room >= 0) for scope in overlay._residence.scopes.values()
            )
            assert all(
                scope.room < 0 for scope in overlay._residence.resting.values() if not scope.active
            )


TestOverlay = OverlayMachine.TestCase
TestOverlay.settings = settings(
    max_examples=20, stateful_step_count=60, deadline=None, report_multiple_bugs=False
)
