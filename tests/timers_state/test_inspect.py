"""Inspection shows every entry of a store as what it is."""

from __future__ import annotations

from timers_state import Domain, Overlay, inspect, key_group, open_read_only, open_store
from timers_state.inspect import Entry


def test_every_entry_is_shown_with_its_parts(tmp_path):
    with Overlay(open_store(tmp_path / "s"), 1 << 20) as overlay:
        scope = overlay.scope(7, b"k\x00")
        scope.value(b"v", b"w").set(b"12345")
        scope.map(b"m").put(b"x", b"123")
        scope.ordered_list(b"o").append(1, b"12")
        scope.timers(Domain.PROCESSING).set(-5, b"f", b"d", b"w")
        overlay.scope(8, b"other").set(b"s").add(b"item")
        overlay.flush()
    store = open_read_only(tmp_path / "s")
    group = key_group(b"k\x00")
    found = list(inspect.entries(store, 7))
    ordered = found.pop(1)
    assert (ordered.kind, ordered.tag, ordered.size) == ("ordered list", b"o", 2)
    assert found == [
        Entry(7, group, b"k\x00", b"", b"m", "map", b"x", 3),
        Entry(7, group, b"k\x00", b"w", b"v", "value", b"", 5),
        Entry(7, group, b"k\x00", b"w", b"f", "processing timer", b"d", 8, -5),
    ]
    (other,) = inspect.entries(store, 8)
    assert (other.kind, other.part, other.size) == ("set", b"item", 0)
    assert len(list(inspect.entries(store))) == 5
    store.close()
