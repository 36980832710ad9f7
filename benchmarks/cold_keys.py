"""What a key costs that is in the store only, with and without prefetch.

Run: ``PYTHONPATH=. python benchmarks/cold_keys.py [keys] [visits]``, by default 1,000,000 keys and
100,000 visits at random, 5,000 in a round, with a budget of 32 MiB. A key has a value and an event
timer; a visit reads and sets the value and moves the timer, of keys that are records and of keys
that are scopes. Figures are microseconds of this thread's CPU time for each visit, and for each
part of what the store does for it; writing what has changed is in the visits.
"""

from __future__ import annotations

import gc
import random
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from timers_state import Domain, Layout, Overlay, RoundStore
from timers_state.cells.value import Value
from timers_state.keys import (
    Family,
    Kind,
    cell_name,
    decode_i64,
    escape,
    owners_in_time,
    prefix_end,
    state_prefix,
    time_row,
    timer_name,
)

if TYPE_CHECKING:
    from collections.abc import Callable

STATE = 7
BUDGET = 32 << 20
ROUND = 5000
LAYOUT = Layout(((Value, b"v"),), (b"f",))
DATA = b"twenty bytes of data"
LATE = 1 << 40

now = time.thread_time


def visit_record(overlay: Overlay, key: bytes, time_: int) -> None:
    """A turn of a key that is a record."""
    records = overlay.records(STATE, LAYOUT)
    record = records.begin(key)
    if record is None:
        records.takes(key)
        record = records.heads.get(key) or records.add(key, b"")
    records.put_value(record, 0, DATA + b"%d" % len(record.values[0] or b""))
    records.set_timer(record, 0, time_)
    records.end(record)


def visit_scope(overlay: Overlay, key: bytes, time_: int) -> None:
    """A turn of a key that has a scope."""
    scope = overlay.scope(STATE, key)
    value = scope.value(b"v")
    value.set(DATA + b"%d" % len(value.get() or b""))
    scope.timers(Domain.EVENT).set(time_, b"f")


VISITS: dict[str, Callable[[Overlay, bytes, int], None]] = {
    "records": visit_record,
    "scopes": visit_scope,
}


def visit(overlay: Overlay, keys: list[bytes], kind: str, *, prefetch: bool) -> None:
    """Turns of keys, in rounds."""
    turn = VISITS[kind]
    if kind == "records":
        overlay.records(STATE, LAYOUT)
    for start in range(0, len(keys), ROUND):
        left = keys[start : start + ROUND]
        while left:
            count = overlay.prefetch(STATE, left) if prefetch else len(left)
            for key in left[:count]:
                turn(overlay, key, random.randrange(LATE))
            left = left[count:]
        overlay.prepare()
        overlay.commit()


def make(directory: Path, keys: list[bytes], snapshot: Path) -> None:
    """A store with these keys, as a stream has made it."""
    with Overlay(RoundStore(directory), BUDGET) as overlay:
        visit(overlay, random.sample(keys, len(keys)), "records", prefetch=False)
        overlay.snapshot(snapshot)


def timed(name: str, count: int, work: Callable[[], Any]) -> Any:
    """Runs something, and prints what it took for each of ``count``."""
    start = now()
    found = work()
    print(f"{name:<58} {(now() - start) / count * 1e6:>8.2f} us", flush=True)
    return found


def measure_parts(store: RoundStore, keys: list[bytes]) -> None:
    """What the store does for keys, one by one and in one pass."""
    count = len(keys)
    cells, tags = (state_prefix(family, STATE) for family in (Family.CELLS, Family.TAGS))
    places = owners_in_time(keys)
    in_order = sorted(places)
    name, row_end = cell_name(b"", b"v", Kind.VALUE), escape(b"") + timer_name(b"f", b"")
    for head, rows in ((cells, "cells"), (tags, "timers")):

        def one_by_one(among: list[bytes], head: bytes = head) -> None:
            for place in among:
                list(store.iterate(head + place, prefix_end(head + place)))

        timed(f"{rows}: an iterator for each key, as they come", count, lambda: one_by_one(places))
        timed(f"{rows}: an iterator for each key, in order", count, lambda: one_by_one(in_order))
        prefixes = [head + place for place in in_order]
        found = timed(
            f"{rows}: one pass", count, lambda p=prefixes: store.read_prefixes(p, 64, 1 << 20)
        )
    times = [
        time_row(STATE, Domain.EVENT, decode_i64(rows[0][1]), place + row_end)
        for place, rows in zip(in_order, found, strict=True)
    ]
    values = [cells + place + name for place in in_order]
    timed("values: get, in order", count, lambda: [store.get(row) for row in values])
    timed("values: multi_get", count, lambda: store.multi_get(values))
    timed("payloads: get, as they come", count, lambda: [store.get(row) for row in times])
    times.sort()
    timed("payloads: multi_get, in order", count, lambda: store.multi_get(times))


def main() -> None:
    """Measures and prints."""
    keys_count, visits = (int(text) for text in (*sys.argv[1:], "1000000", "100000")[:2])
    keys = [b"key-%08d" % number for number in range(keys_count)]
    gc.freeze()
    gc.set_threshold(100_000, 20, 50)  # as Spark's workers have it
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        snapshot = root / "snapshot"
        timed("a new key, a visit included", keys_count, lambda: make(root / "0", keys, snapshot))
        number = 0
        for kind in VISITS:
            for prefetch in (False, True) if kind == "records" else (False,):
                number += 1
                copy = root / str(number)
                with Overlay(RoundStore.take_up(snapshot), BUDGET) as overlay:
                    overlay.snapshot(copy)  # what is taken up is deleted
                    asked = random.choices(keys, k=visits)
                    how = "prefetch" if prefetch else "as they come"
                    timed(
                        f"{kind}: a visit, {how}",
                        visits,
                        lambda o=overlay, a=asked, k=kind, p=prefetch: visit(o, a, k, prefetch=p),
                    )
                snapshot = copy
        with closing(RoundStore.take_up(snapshot)) as store:
            measure_parts(store, random.sample(keys, min(len(keys), visits) // 4))


if __name__ == "__main__":
    main()
