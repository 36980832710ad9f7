"""A million timers that are due at once pass in bounded memory, each once, in order for a key."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.counting_store import CountingStore
from timers_state import Domain, Layout, MemoryStore, Overlay, RoundStore

BUDGET = 32 << 20

PROGRAM = """
import resource, sys
from pathlib import Path
from timers_state import Domain, Overlay, RocksMemory, RoundStore

keys, per_key, budget, directory = *map(int, sys.argv[1:4]), Path(sys.argv[4])
memory = RocksMemory(16 << 20, 16 << 20)
overlay = Overlay(RoundStore(directory, memory), budget)
count = keys * per_key
used = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
before = used()
for number in range(count):
    timers = overlay.scope(1, b"key-%d" % (number % keys)).timers(Domain.EVENT)
    timers.set(number * 7919 % 1_000_003, b"t", b"%d" % (number // keys))
overlay.prepare()
overlay.commit()
fired = 0
while (key := overlay.next_due(1, Domain.EVENT, 1_000_003)) is not None:
    last = 0
    while (timer := overlay.scope(1, key).timers(Domain.EVENT).pop_due(1_000_003)) is not None:
        assert timer.time >= last, (timer, last)
        fired, last = fired + 1, timer.time
overlay.prepare()
overlay.commit()
assert overlay.first_time(1, Domain.EVENT) is None
overlay.close()
print(fired, used() - before)
"""


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("keys", [1_000_000, 1000, 1])
def test_a_million_timers_due_at_once_pass_in_bounded_memory(keys, tmp_path):
    arguments = [str(keys), str(1_000_000 // keys), str(BUDGET), str(tmp_path / "s")]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parents[2],
    )
    assert done.returncode == 0, done.stderr
    fired, mebibytes = map(int, done.stdout.split())
    assert fired == 1_000_000
    assert mebibytes < 300


@pytest.mark.parametrize(("keys", "per_key"), [(2000, 1), (40, 50), (1, 6000)])
def test_firing_reads_a_few_rows_per_timer_however_many_keys_there_are(keys, per_key):
    store = CountingStore()
    overlay = Overlay(store, 1 << 30)
    for number in range(keys * per_key):
        timers = overlay.scope(1, b"%d" % (number % keys)).timers(Domain.EVENT)
        timers.set(number, b"t", b"%d" % (number // keys))
    overlay.flush()
    store.reset()
    fired = 0
    while (key := overlay.next_due(1, Domain.EVENT, 1 << 40)) is not None:
        assert overlay.scope(1, key).timers(Domain.EVENT).pop_due(1 << 40).time == fired
        fired += 1
    assert fired == keys * per_key
    assert store.walked < 4 * fired + 5000


def test_a_timer_that_is_moved_over_and_over_does_not_grow_the_index():
    overlay = Overlay(MemoryStore(), 1 << 30)
    timers = overlay.scope(1, b"k").timers(Domain.EVENT)
    for time in range(10_000, 0, -1):
        timers.set(time, b"t")
        timers.set(20_000 - time, b"t")
        index = overlay.index_of(1, Domain.EVENT)
        assert max(index._listed, len(index._times)) < 200
    assert overlay.first_time(1, Domain.EVENT) == 19_999


def test_a_timer_of_a_small_key_that_is_moved_over_and_over_does_not_grow_its_lists():
    overlay = Overlay(CountingStore(), 1 << 30)
    records = overlay.records(1, Layout((), (b"t",)))
    for turn in range(50, 0, -1):
        for time in range(100, 0, -1):
            record = records.begin(b"k") or records.add(b"k", b"")
            records.set_timer(record, 0, 100 * turn + time)
            records.end(record)
        overlay.prepare()
        overlay.commit()
        assert records._times._listed < 1200
    assert overlay.first_time(1, Domain.EVENT) == 101


def test_a_long_turn_with_copies_does_not_grow_their_lists():
    overlay = Overlay(MemoryStore(), 1 << 30)
    name = (Domain.PROCESSING, b"t", b"")
    apart = overlay.records(1, Layout((), (b"t",), others=True)).apart()
    for time in range(5000):
        record = apart.begin(b"k") or apart.add(b"k", b"")
        apart.set_timer(record, 0, 5000 - time)
        apart.set_other(record, name, 5000 - time)
        ((_, content),) = apart.take_changes()
    assert content == ((), (1,), (b"",), None, {name: (1, b"")})
    assert len(apart._times._times) + len(apart._lists[Domain.PROCESSING]._times) < 100


def test_a_window_ends_of_which_a_scope_takes_over_what_is_not_in_its_record():
    overlay = Overlay(MemoryStore(), 1 << 30)
    records = overlay.records(1, Layout((), (b"t",), expires=True))
    apart = records.apart()
    apart.expire_at(apart.add(b"k", b"w"), 7)
    records.put(b"k", apart.take_changes(), ends=False)
    scope = overlay.scope(1, b"k")
    scope.timers(Domain.PROCESSING).set(3, b"p", b"", b"w")
    assert overlay.first_time(1, Domain.EXPIRY) == 7


def test_an_earlier_timer_is_found_that_was_set_while_its_key_was_hidden():
    overlay = Overlay(MemoryStore(), 1 << 30)
    records = overlay.records(1, Layout((), (b"f", b"g")))
    record = records.begin(b"k") or records.add(b"k", b"")
    records.set_timer(record, 0, 50)
    records.beside.add(b"k")
    records.hide(b"k")
    assert overlay.first_time(1, Domain.EVENT) is None
    apart = records.apart()
    apart.take_in(records.copies(b"k"))
    apart.set_timer(apart.begin(b"k"), 1, 20)
    records.put(b"k", apart.take_changes())
    records.show(b"k")
    assert overlay.next_due(1, Domain.EVENT, 30) == b"k"
    assert overlay.first_time(1, Domain.EVENT) == 20


def test_keys_that_come_and_go_do_not_grow_the_index():
    overlay = Overlay(MemoryStore(), 1 << 30)
    for number in range(1000):
        overlay.scope(1, b"%d" % number).timers(Domain.EVENT).set(number, b"t")
        overlay.scope(1, b"%d" % number).forget()
    index = overlay.index_of(1, Domain.EVENT)
    assert max(index._listed, len(index._times)) < 200
    assert not index._bounds


def test_keys_that_come_back_next_round_are_not_read_from_the_store(tmp_path):
    store = CountingStore()
    overlay = Overlay(store, 1 << 30)
    lookups = []
    store.get = lookups.append
    store.multi_get = lookups.append
    for turn in range(3):
        for number in range(50):
            scope = overlay.scope(1, b"%d" % number)
            assert scope.value(b"v").get() == (b"%d" % (turn - 1) if turn else None)
            scope.value(b"v").set(b"%d" % turn)
            scope.bag(b"b").append(b"x")
            assert len(list(scope.bag(b"b").read())) == turn + 1
            scope.timers(Domain.EVENT).set(turn, b"t")
            assert scope.timers(Domain.EVENT).next_time() == turn
        overlay.prepare()
        overlay.commit()
    assert not lookups
    assert store.walked == 0


def test_what_rounds_leave_behind_stays_within_the_budget():
    overlay = Overlay(RoundStoreOfSizes(), 200_000)
    for turn in range(20):
        for number in range(50):
            scope = overlay.scope(1, b"%d" % (50 * turn + number))
            scope.value(b"v").set(b"x" * 100)
        overlay.prepare()
        overlay.commit()
        kept = sum(scope.leased for scope in overlay._residence.scopes.values())
        assert kept <= 200_000
    assert 50 < len(overlay._residence.scopes) < 200
    newest = overlay._residence.scopes.keys()
    assert all((1, b"%d" % number) in newest for number in range(950, 1000))


class RoundStoreOfSizes:
    """Takes everything and keeps nothing."""

    def __init__(self):
        self.sequence = 0

    def write(self, batch):
        self.sequence = batch.sequence


def test_an_undo_point_is_made_only_by_a_round_that_exceeds_the_budget(tmp_path):
    overlay = Overlay(RoundStore(tmp_path / "s"), 100_000)
    undo = tmp_path / "s" / "undo"
    for turn, (size, marked) in enumerate([(10, False), (10, False), (200_000, True)]):
        bag = overlay.scope(1, b"%d" % turn).bag(b"b")
        for _ in range(size // 10):
            bag.append(b"0123456789")
        assert undo.exists() == marked
        overlay.prepare()
        overlay.commit()
        assert not undo.exists()
    assert sum(1 for _ in overlay.scope(1, b"2").bag(b"b").read()) == 20_000
    overlay.close()
