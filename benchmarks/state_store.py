"""Calls per second of ``timers_state`` on one core: in memory, over many keys, and spilled to disk.

Run: ``PYTHONPATH=. python benchmarks/state_store.py [elements]``. The cost of the loops themselves
is measured first and left in; the first line shows it.
"""

from __future__ import annotations

import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from timers_state import Domain, MemoryStore, Overlay, ScratchStore, inspect, key_group, open_store
from timers_state.keys import Family, owner_prefix
from timers_state.store import Batch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from timers_state import Store

BUDGET = 64 << 20
STATE = 7
DATA = b"twenty bytes of data"


def measure_elements(count: int) -> None:
    """What a stateful DoFn does per element: a value, a bag, a combining cell and a timer."""
    for per_key in (10, 1):
        overlay = Overlay(MemoryStore(), BUDGET)
        with clock(f"element: value+bag+combining+timer, {per_key} per key", count):
            for number in range(count // per_key):
                scope = overlay.scope(STATE, b"key-%08d" % number)
                value = scope.value(b"v")
                bag = scope.bag(b"b")
                total = scope.combining(b"c")
                timers = scope.timers(Domain.EVENT)
                for step in range(per_key):
                    value.get()
                    value.set(DATA)
                    bag.append(DATA)
                    total.get()
                    total.set(DATA)
                    timers.set(step, b"t")
                while timers.pop_due(1 << 62) is not None:
                    pass
                scope.forget()


def measure_calls(count: int) -> None:
    """Each call by itself, one key, in memory."""
    overlay = Overlay(MemoryStore(), 8 << 30)
    scope = overlay.scope(STATE, b"key")
    numbers = [b"%08d" % number for number in range(count)]
    with clock("(empty loop)", count):
        for _ in numbers:
            pass
    with clock("key_group(key)", count):
        for number in numbers:
            key_group(number)
    value = scope.value(b"v")
    with clock("value.set", count):
        for number in numbers:
            value.set(number)
    with clock("value.get", count):
        for _ in numbers:
            value.get()
    bag = scope.bag(b"b")
    with clock("bag.append", count):
        for number in numbers:
            bag.append(number)
    with clock("bag.read, per element", count):
        for _ in bag.read():
            pass
    members = scope.set(b"s")
    with clock("set.add", count):
        for number in numbers:
            members.add(number)
    with clock("set.contains", count):
        for number in numbers:
            members.contains(number)
    mapping = scope.map(b"m")
    with clock("map.put", count):
        for number in numbers:
            mapping.put(number, DATA)
    with clock("map.get", count):
        for number in numbers:
            mapping.get(number)
    groups = scope.multimap(b"mm")
    with clock("multimap.put", count):
        for number in numbers:
            groups.put(number, DATA)
    ordered = scope.ordered_list(b"o")
    with clock("ordered_list.append", count):
        for step, number in enumerate(numbers):
            ordered.append(step, number)
    with clock("ordered_list.read, per element", count):
        for _ in ordered.read():
            pass
    timers = scope.timers(Domain.EVENT)
    with clock("timers.set, one timer over and over", count):
        for step in range(count):
            timers.set(step, b"t")
    with clock("timers.set, different timers", count):
        for step, number in enumerate(numbers):
            timers.set(step, b"t", number)
    with clock("timers.due, per timer", count):
        for _ in timers.due(1 << 62):
            pass
    with clock("scope + value + set + forget, per key", count):
        for number in numbers:
            fresh = overlay.scope(STATE, number)
            fresh.value(b"v").set(DATA)
            fresh.forget()


def measure_spilled(count: int, directory: Path) -> None:
    """One key whose content is many times the budget."""
    overlay = Overlay(ScratchStore(directory), 4 << 20)
    scope = overlay.scope(STATE, b"key")
    bag = scope.bag(b"b")
    with clock("bag.append, spilling every 4 MB", count):
        for _ in range(count):
            bag.append(DATA)
    with clock("bag.read of a spilled bag, per element", count):
        for _ in bag.read():
            pass
    numbers = [b"%08d" % number for number in range(count)]
    mapping = scope.map(b"m")
    with clock("map.put, spilling every 4 MB", count):
        for number in numbers:
            mapping.put(number, DATA)
    with clock("map.get of a spilled map", count):
        for number in numbers:
            mapping.get(number)
    with clock("map.items of a spilled map, per entry", count):
        for _ in mapping.items():
            pass
    timers = scope.timers(Domain.EVENT)
    with clock("timers.set, spilling every 4 MB", count):
        for step, number in enumerate(numbers):
            timers.set(step, b"t", number)
    with clock("timers.due of spilled timers, per timer", count):
        for _ in timers.due(1 << 62):
            pass
    overlay.close()


def measure_keys(count: int, directory: Path) -> None:
    """Many keys that stay in the store between flushes, as in a stream."""
    store = open_store(directory)
    overlay = Overlay(store, BUDGET)
    keys = [b"key-%08d" % number for number in range(count)]
    with clock("new key: value.set + timer, flushed", count):
        for key in keys:
            scope = overlay.scope(STATE, key)
            scope.value(b"v").set(DATA)
            scope.timers(Domain.EVENT).set(5, b"t")
        overlay.flush()
    with clock("old key: value.get + value.set, flushed", count):
        for key in keys:
            value = overlay.scope(STATE, key).value(b"v")
            value.get()
            value.set(DATA)
        overlay.flush()
    with clock("inspect.entries, per entry", 2 * count):
        for _ in inspect.entries(store):
            pass
    measure_rows(store, count)
    with clock("close, per key", count):
        overlay.close()
    with clock("open, per key", count):
        store = open_store(directory)
    store.close()


def measure_rows(store: Store, count: int) -> None:
    """The store below the overlay."""
    rows = [owner_prefix(Family.CELLS, 9, 0, b"key-%08d" % number) for number in range(count)]
    batch = Batch(store.sequence + 1)
    with clock("store: batch.put + write, per row", count):
        for row in rows:
            batch.put(row, DATA)
        store.write(batch)
    with clock("store: get", count):
        for row in rows:
            store.get(row)
    with clock("store: multi_get, per row", count):
        store.multi_get(rows)
    with clock("store: iterate, per row", count):
        for _ in store.iterate(rows[0], rows[-1]):
            pass


@contextmanager
def clock(name: str, calls: int) -> Iterator[None]:
    """Prints how long the body took per call."""
    start = time.perf_counter()
    yield
    seconds = time.perf_counter() - start
    print(f"{name:<58} {calls / seconds / 1000:>9,.0f} k/s {seconds / calls * 1e6:>8.3f} us")


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    measure_elements(count)
    measure_calls(count)
    with tempfile.TemporaryDirectory() as directory:
        measure_spilled(count, Path(directory) / "spilled")
        measure_keys(count // 2, Path(directory) / "keys")


if __name__ == "__main__":
    main()
