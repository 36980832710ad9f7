"""What every metadata store must do, whatever it keeps its records in."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from metadata_backends import BACKENDS, Backend

from sparkdrain.coordination.metadata import LARGEST_VALUE, LONGEST_KEY


@pytest.fixture(params=BACKENDS)
def backend(request, tmp_path):
    return Backend(request.param, tmp_path)


@pytest.fixture
def store(backend):
    handle = backend.open()
    yield handle
    handle.close()


# Prefixes of each other, names that a file system takes for something else, and long ones.
SPACES = st.sampled_from(["a", "a.b", "a-b", "ab", "z" * 63])
KEYS = st.sampled_from(["a", "A", "a/b", "..", "a.record", "é", "a b%", "\x00", "k" * LONGEST_KEY])
VALUES = st.sampled_from([b"", b"1", b"2\n\x00", bytes(range(256)), b"x" * 70_000])
WHICH = st.integers(0, 1)


class AgainstADict(RuleBasedStateMachine):
    """Two handles on one store do what a dict of dicts would."""

    kind = ""

    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp(prefix="metadata-"))
        self.backend = Backend(self.kind, self.directory)
        self.handles = [self.backend.open(), self.backend.open()]
        self.model: dict[str, dict[str, bytes]] = {}

    def teardown(self) -> None:
        for handle in self.handles:
            handle.close()
        shutil.rmtree(self.directory)

    @rule(which=WHICH, space=SPACES, key=KEYS, value=VALUES)
    def put(self, which, space, key, value) -> None:
        self.handles[which].put(space, key, value)
        self.model.setdefault(space, {})[key] = value

    @rule(which=WHICH, space=SPACES, key=KEYS)
    def remove(self, which, space, key) -> None:
        self.handles[which].remove(space, key)
        self.model.get(space, {}).pop(key, None)

    @rule(which=WHICH, space=SPACES, key=KEYS, expected=VALUES | st.none())
    def get_and_compare_what_may_not_be_there(self, which, space, key, expected) -> None:
        there = self.model.get(space, {}).get(key)
        assert self.handles[which].get(space, key) == there
        done = self.handles[which].compare_and_set(space, key, expected, b"new")
        assert done == (there == expected)
        if done:
            self.model.setdefault(space, {})[key] = b"new"

    @rule(which=WHICH, space=SPACES, key=KEYS, value=VALUES | st.none())
    def compare_and_set_what_is_there(self, which, space, key, value) -> None:
        there = self.model.get(space, {}).get(key)
        assert self.handles[which].compare_and_set(space, key, there, value)
        self.model.setdefault(space, {}).pop(key, None)
        if value is not None:
            self.model[space][key] = value

    @rule(which=WHICH)
    def flush(self, which) -> None:
        self.handles[which].flush()

    @rule(which=WHICH)
    def reopen_one(self, which) -> None:
        self.handles[which].close()
        self.handles[which] = self.backend.open()

    @precondition(lambda self: self.kind != "memory")
    @rule()
    def reopen_all(self) -> None:
        for handle in self.handles:
            handle.close()
        self.backend.restart()
        self.handles = [self.backend.open(), self.backend.open()]

    @invariant()
    def both_show_all(self) -> None:
        for space in ("a", "a.b", "ab"):
            for handle in self.handles:
                assert handle.all(space) == self.model.get(space, {})


def machine(kind: str):
    made = type(f"AgainstADict_{kind}", (AgainstADict,), {"kind": kind})
    case = made.TestCase
    case.settings = settings(max_examples=12, stateful_step_count=25, deadline=None)
    return case


TestMemory = machine("memory")
TestFile = machine("file")
TestRocks = machine("rocksdb")


def test_of_many_that_expect_the_same_exactly_one_wins(backend):
    threads, won, together = [], [], threading.Barrier(6)

    def claim(number: int) -> None:
        handle = backend.open()
        together.wait(60)
        mine = b"%d" % number
        keys = ("a", "b", "c")
        won.extend((k, mine) for k in keys if handle.compare_and_set("leases", k, None, mine))
        handle.close()

    keeper = backend.open()
    for number in range(6):
        threads.append(threading.Thread(target=claim, args=(number,)))
        threads[-1].start()
    for thread in threads:
        thread.join(60)
    assert dict(won) == keeper.all("leases")
    assert len(won) == 3
    keeper.close()


class Slow(bytes):
    """What is expected of a record; comparing it takes until the test says so."""

    compared, may_go_on = threading.Event(), threading.Event()

    def __eq__(self, other):
        return not self.__ne__(other)

    def __ne__(self, other):
        self.compared.set()
        assert self.may_go_on.wait(60)
        return bytes(self) != other

    __hash__ = bytes.__hash__


def test_who_expects_the_same_waits_for_who_was_first(backend):
    """Comparing and writing is one step, whichever handle of the store does it."""
    handle, other = backend.open(), backend.open()
    handle.put("a", "k", b"before")
    Slow.compared.clear()
    Slow.may_go_on.clear()
    won = []

    def change(handle, expected, value):
        won.append(value if handle.compare_and_set("a", "k", expected, value) else None)

    first = threading.Thread(target=change, args=(handle, Slow(b"before"), b"first"))
    second = threading.Thread(target=change, args=(other, b"before", b"second"))
    first.start()
    assert Slow.compared.wait(60)
    second.start()
    second.join(0.3)  # as long as it takes, if nothing keeps it
    Slow.may_go_on.set()
    first.join(60)
    second.join(60)
    assert sorted(won, key=str) == [None, b"first"]
    assert other.get("a", "k") == b"first"
    handle.close()
    other.close()


def test_a_count_that_many_raise_loses_no_step(backend):
    def raise_it() -> None:
        handle = backend.open()
        for _ in range(10):
            while True:
                before = handle.get("counts", "n")
                after = b"%d" % (int(before or 0) + 1)
                if handle.compare_and_set("counts", "n", before, after):
                    break
        handle.close()

    keeper = backend.open()
    threads = [threading.Thread(target=raise_it) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert keeper.get("counts", "n") == b"40"
    keeper.close()


PUT_AND_DIE = """
import os, sys
from sparkdrain.coordination.address import parse
from sparkdrain.coordination.stores import STORES
store = STORES.open(parse(sys.argv[1]))
store.put("a", "k", b"1")
store.put("a", "gone", b"1")
store.remove("a", "gone")
assert store.compare_and_set("a", "c", None, b"2")
os.kill(os.getpid(), 9)
"""


@pytest.mark.parametrize("kind", [kind for kind in BACKENDS if kind != "memory"])
def test_what_a_process_wrote_is_there_after_it_was_killed(kind, tmp_path):
    backend = Backend(kind, tmp_path)
    done = subprocess.run(
        [sys.executable, "-c", PUT_AND_DIE, f"{kind}:{tmp_path}/store"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        timeout=100,
        check=False,
    )
    assert done.returncode == -9
    store = backend.open()
    assert store.all("a") == {"k": b"1", "c": b"2"}
    store.close()


def test_records_that_are_known_can_be_left_out(store):
    for key in ("k", "other", "third"):
        store.put("a", key, b"1")
    assert store.all("a", None, {"k", "third", "unknown"}) == {"other": b"1"}


def test_a_value_is_a_copy(store):
    value = bytearray(b"before")
    store.put("a", "k", value)
    value[:] = b"after!"
    assert store.get("a", "k") == b"before"


@pytest.mark.parametrize("space", ["", "A", "a/b", "-a", "ä", "..", "a" * 64, "a\x00"])
def test_a_name_that_is_no_namespace_is_refused(store, space):
    for act in (
        lambda: store.put(space, "k", b""),
        lambda: store.get(space, "k"),
        lambda: store.all(space),
        lambda: store.remove(space, "k"),
        lambda: store.compare_and_set(space, "k", None, b""),
    ):
        with pytest.raises(ValueError, match="is no namespace"):
            act()


def test_a_key_that_is_empty_or_too_long_is_refused(store):
    for key in ("", "k" * (LONGEST_KEY + 1), "é" * (LONGEST_KEY // 2 + 1)):
        with pytest.raises(ValueError, match="A key has 1 to 512 bytes"):
            store.put("a", key, b"")


def test_the_largest_value_is_taken_and_a_larger_one_is_refused_whole(store):
    largest = b"x" * LARGEST_VALUE
    store.put("a", "k", largest)
    with pytest.raises(ValueError, match="at most"):
        store.put("a", "k", largest + b"y")
    with pytest.raises(ValueError, match="at most"):
        store.compare_and_set("a", "k", largest, largest + b"y")
    assert store.get("a", "k") == largest


def test_a_closed_handle_says_so_and_leaves_others_alone(backend):
    first, second = backend.open(), backend.open()
    first.put("a", "k", b"1")
    first.close()
    first.close()
    for act in (
        lambda: first.put("a", "k", b""),
        lambda: first.get("a", "k"),
        lambda: first.all("a"),
        lambda: first.remove("a", "k"),
        lambda: first.compare_and_set("a", "k", None, b""),
        first.flush,
    ):
        with pytest.raises(ValueError, match="closed"):
            act()
    assert second.get("a", "k") == b"1"
    second.close()
