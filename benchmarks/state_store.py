"""Calls per second of ``timers_state`` on one core: in memory, over many keys, and spilled to disk.

Run: ``PYTHONPATH=. python benchmarks/state_store.py [elements] [--cpu]``. With ``--cpu`` the time
is that of this thread on its processor, which other work on the machine disturbs less; RocksDB's
own threads are not in it.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections import deque
from contextlib import contextmanager
from itertools import repeat
from pathlib import Path
from typing import TYPE_CHECKING

from timers_state import Domain, MemoryStore, Overlay, RoundStore, inspect, key_group, open_store
from timers_state.keys import Family, owner_prefix
from timers_state.store.store import Batch

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from timers_state import KeyScope, Store

BUDGET = 64 << 20
SPILLING = 4 << 20
STATE = 7
END = 1 << 62
DATA = b"twenty bytes of data"

now = time.thread_time if "--cpu" in sys.argv else time.perf_counter


@contextmanager
def clock(name: str, calls: int) -> Iterator[None]:
    """Prints how long the body took per call."""
    start = now()
    yield
    seconds = max(now() - start, 1e-9)
    print(f"{name:<58} {calls / seconds / 1000:>9,.0f} k/s {seconds / calls * 1e6:>8.3f} us")


def run(name: str, calls: int, work: Iterable[object]) -> None:
    """Runs a lazy iterable, at the speed of C, and prints what it took per call."""
    with clock(name, calls):
        deque(work, maxlen=0)


def measure_elements(count: int, per_key: int) -> None:
    """What a stateful DoFn does per element: a value, a bag, a combining cell and a timer."""
    overlay = Overlay(MemoryStore(), BUDGET)
    with clock(f"element: value + bag + combining + timer, {per_key} per key", count):
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
            while timers.pop_due(END) is not None:
                pass
            scope.forget()


def measure_cells(count: int, scope: KeyScope, numbers: list[bytes]) -> None:
    """Each call on a cell by itself, one key."""
    value, bag, members = scope.value(b"v"), scope.bag(b"b"), scope.set(b"s")
    mapping, multimap, ordered = scope.map(b"m"), scope.multimap(b"n"), scope.ordered_list(b"o")
    data = repeat(DATA)
    run("value.set", count, map(value.set, numbers))
    run("value.get", count, (value.get() for _ in numbers))
    run("bag.append", count, map(bag.append, numbers))
    run("bag.read, per element", count, bag.read())
    run("set.add", count, map(members.add, numbers))
    run("set.contains", count, map(members.contains, numbers))
    run("map.put", count, map(mapping.put, numbers, data))
    run("map.get", count, map(mapping.get, numbers))
    run("map.items, per entry", count, mapping.items())
    run("multimap.put", count, map(multimap.put, numbers, data))
    run("ordered_list.append", count, map(ordered.append, range(count), numbers))
    run("ordered_list.read, per element", count, ordered.read())


def measure_timers(count: int, scope: KeyScope, numbers: list[bytes]) -> None:
    """Each call on timers by itself, one key."""
    timers = scope.timers(Domain.EVENT)
    family = repeat(b"t")
    run("timers.set, one timer over and over", count, map(timers.set, range(count), family))
    run("timers.set, different timers", count, map(timers.set, range(count), family, numbers))
    run("timers.due, per timer", count, timers.due(END))


def measure_keys(count: int, directory: Path) -> None:
    """Many keys that stay in the store between flushes, as in a stream."""
    store = open_store(directory)
    overlay = Overlay(store, BUDGET)
    keys = [b"key-%08d" % number for number in range(count)]
    with clock("new key: value.set + timers.set, flushed", count):
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
    run("inspect.entries, per entry", 2 * count, inspect.entries(store))
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
    run("store: get", count, map(store.get, rows))
    with clock("store: multi_get, per row", count):
        store.multi_get(rows)
    run("store: iterate, per row", count, store.iterate(rows[0], rows[-1]))
    run("store: iterate one row, per scan", count, map(next, map(store.iterate, rows, rows[1:])))


def main() -> None:
    arguments = [argument for argument in sys.argv[1:] if argument.isdigit()]
    count = int(arguments[0]) if arguments else 1_000_000
    numbers = [b"%08d" % number for number in range(count)]
    print("one core; in memory")
    for per_key in (100, 10, 1):
        measure_elements(count, per_key)
    run("key_group(key)", count, map(key_group, numbers))
    scope = Overlay(MemoryStore(), END).scope(STATE, b"key")
    measure_cells(count, scope, numbers)
    measure_timers(count, scope, numbers)
    with tempfile.TemporaryDirectory() as directory:
        print(f"one key, spilling every {SPILLING >> 20} MiB")
        overlay = Overlay(RoundStore(Path(directory) / "scratch"), SPILLING)
        measure_cells(count, overlay.scope(STATE, b"key"), numbers)
        measure_timers(count // 2, overlay.scope(STATE, b"key"), numbers)
        overlay.close()
        print("many keys in the store")
        measure_keys(count // 2, Path(directory) / "store")


if __name__ == "__main__":
    main()
