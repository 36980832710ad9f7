"""What every metadata store must do, whatever it keeps its records in.

A test module imports ``*`` from here, has a fixture ``backend`` that gives a ``StoreOfKind``, and
makes a case of ``against_a_dict``.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from sparkdrain.coordination.address import parse
from sparkdrain.coordination.backend import StoreReach
from sparkdrain.coordination.metadata import ABSENT, ANY, LONGEST_KEY
from sparkdrain.coordination.stores import Stores

if TYPE_CHECKING:
    from collections.abc import Callable

LARGE = 3_000_000
"""Bytes; more than some stores take as one record."""


class StoreOfKind:
    """One store, and this process's way to it."""

    def __init__(self, address: str) -> None:
        self.text = address
        self.address = parse(address)
        self.stores = Stores()
        self.is_lasting = self.stores.reach(self.address) is not StoreReach.PROCESS

    def open(self):
        return self.stores.open(self.address)

    def restart(self) -> None:
        """As if the process had ended, without a word to the store, and another had begun."""
        if self.is_lasting:
            self.stores = Stores()


def values_of(store, namespace, **arguments):
    """The values of all records by key."""
    return {key: found.value for key, found in store.all(namespace, **arguments).items()}


def value_of(store, namespace, key):
    """The value of a record; None if there is none."""
    found = store.get(namespace, key)
    return None if found is None else found.value


@pytest.fixture
def store(backend):
    handle = backend.open()
    yield handle
    handle.close()


# Prefixes of each other, names that a file system takes for something else, and long ones.
SPACES = st.sampled_from(["a", "a.b", "a-b", "ab", "z" * 63])
KEYS = st.sampled_from(
    [
        "a",
        "A",
        "a/b",
        "..",
        "a.record",
        "é",
        "a b%",
        "\x00",
        "k" * LONGEST_KEY,
        "é" * 256,
        "\x7f😀#",
    ]
)
PREFIXES = st.sampled_from(["", "a", "a/", ".", "k" * 200, "é", "é" * 256, "\x7f", "nothing"])
VALUES = st.sampled_from([b"", b"1", b"2\n\x00", bytes(range(256)), b"x" * 70_000])
WHICH = st.integers(0, 1)


class AgainstADict(RuleBasedStateMachine):
    """Two handles on one store do what a dict of dicts would."""

    make: Callable[[Path], StoreOfKind]

    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp(prefix="metadata-"))
        self.backend = type(self).make(self.directory)
        self.handles = [self.backend.open(), self.backend.open()]
        # By namespace and key: value and version.
        self.model: dict[str, dict[str, tuple[bytes, str]]] = {}
        self.versions: set[tuple[str, str, str]] = set()

    def teardown(self) -> None:
        for handle in self.handles:
            handle.close()
        shutil.rmtree(self.directory)

    def there(self, space, key):
        return self.model.get(space, {}).get(key, (None, ABSENT))

    def note(self, space, key, value, version) -> None:
        assert isinstance(version, str)
        assert version not in {ANY, ABSENT}
        assert (space, key, version) not in self.versions, "a version came back"
        self.versions.add((space, key, version))
        self.model.setdefault(space, {})[key] = value, version

    @rule(which=WHICH, space=SPACES, key=KEYS, value=VALUES)
    def put(self, which, space, key, value) -> None:
        self.note(space, key, value, self.handles[which].put(space, key, value))

    @rule(which=WHICH, space=SPACES, key=KEYS)
    def remove(self, which, space, key) -> None:
        assert self.handles[which].remove(space, key)
        self.model.get(space, {}).pop(key, None)

    @rule(which=WHICH, space=SPACES, key=KEYS, value=VALUES)
    def put_over_what_is_there(self, which, space, key, value) -> None:
        _, version = self.there(space, key)
        self.note(space, key, value, self.handles[which].put(space, key, value, version))

    @rule(which=WHICH, space=SPACES, key=KEYS)
    def remove_what_is_there(self, which, space, key) -> None:
        _, version = self.there(space, key)
        assert self.handles[which].remove(space, key, version)
        self.model.get(space, {}).pop(key, None)

    @rule(which=WHICH, space=SPACES, key=KEYS, data=st.data())
    def change_what_another_has_changed(self, which, space, key, data) -> None:
        _, version = self.there(space, key)
        old = sorted({each for *at, each in self.versions if at == [space, key]} | {ABSENT})
        wrong = data.draw(st.sampled_from([each for each in old if each != version] or ["none"]))
        assert self.handles[which].put(space, key, b"new", wrong) is None
        assert not self.handles[which].remove(space, key, wrong)

    @rule(which=WHICH, space=SPACES, key=KEYS)
    def get(self, which, space, key) -> None:
        found = self.handles[which].get(space, key)
        found = (None, ABSENT) if found is None else (found.value, found.version)
        assert found == self.there(space, key)

    @rule(which=WHICH, space=SPACES, prefix=PREFIXES)
    def list_by_prefix(self, which, space, prefix) -> None:
        there = {key for key in self.model.get(space, {}) if key.startswith(prefix)}
        assert set(self.handles[which].all(space, prefix=prefix)) == there

    @rule(which=WHICH)
    def reopen_one(self, which) -> None:
        self.handles[which].close()
        self.handles[which] = self.backend.open()

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
                found = handle.all(space).items()
                there = {key: (each.value, each.version) for key, each in found}
                assert there == self.model.get(space, {})


def against_a_dict(make: Callable[[Path], StoreOfKind], examples: int = 12):
    """A test case; ``make`` gives a store that is empty, and may keep it in a folder."""
    case = type("AgainstADictOfAKind", (AgainstADict,), {"make": staticmethod(make)}).TestCase
    case.settings = settings(max_examples=examples, stateful_step_count=25, deadline=None)
    return case


def test_of_many_that_expect_the_same_exactly_one_wins(backend):
    threads, won, together = [], [], threading.Barrier(6)

    def claim(number: int) -> None:
        handle = backend.open()
        together.wait(60)
        mine = b"%d" % number
        keys = ("a", "b", "c")
        won.extend((k, mine) for k in keys if handle.put("leases", k, mine, ABSENT) is not None)
        handle.close()

    keeper = backend.open()
    for number in range(6):
        threads.append(threading.Thread(target=claim, args=(number,)))
        threads[-1].start()
    for thread in threads:
        thread.join(60)
    assert dict(won) == values_of(keeper, "leases")
    assert len(won) == 3
    keeper.close()


def test_a_count_that_many_raise_loses_no_step(backend):
    def raise_it() -> None:
        handle = backend.open()
        for _ in range(10):
            while True:
                before = handle.get("counts", "n")
                value, version = (
                    (b"0", ABSENT) if before is None else (before.value, before.version)
                )
                if handle.put("counts", "n", b"%d" % (int(value) + 1), version) is not None:
                    break
        handle.close()

    keeper = backend.open()
    threads = [threading.Thread(target=raise_it) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert value_of(keeper, "counts", "n") == b"40"
    keeper.close()


PUT_AND_DIE = """
import os, sys
from sparkdrain.coordination.address import parse
from sparkdrain.coordination.stores import STORES
store = STORES.open(parse(sys.argv[1]))
version = store.put("a", "k", b"1")
store.put("a", "gone", b"1")
assert store.remove("a", "gone")
assert store.put("a", "c", b"2", "")
print(version)
sys.stdout.flush()
os.kill(os.getpid(), 9)
"""


def test_what_a_process_wrote_is_there_after_it_was_killed(backend):
    if not backend.is_lasting:
        return
    done = subprocess.run(
        [sys.executable, "-c", PUT_AND_DIE, backend.text],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        timeout=100,
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == -9, done.stderr
    store = backend.open()
    assert values_of(store, "a") == {"k": b"1", "c": b"2"}
    assert store.put("a", "k", b"3", done.stdout.strip()) is not None
    store.close()


def test_a_record_that_was_removed_and_put_again_is_another(store):
    first = store.put("a", "k", b"1")
    store.remove("a", "k")
    second = store.put("a", "k", b"1", ABSENT)
    assert store.put("a", "k", b"2", first) is None
    assert not store.remove("a", "k", first)
    assert store.put("a", "k", b"2", second) is not None


def test_a_removal_of_what_is_not_there_tells_whether_a_version_was_meant(store):
    assert store.remove("a", "k")
    assert store.remove("a", "k", ABSENT)
    version = store.put("a", "k", b"1")
    assert not store.remove("a", "k", ABSENT)
    assert store.remove("a", "k", version)
    assert not store.remove("a", "k", version)
    assert store.get("a", "k") is None


def test_records_that_are_known_can_be_left_out(store):
    for key in ("k", "other", "third"):
        store.put("a", key, b"1")
    assert values_of(store, "a", without={"k", "third", "unknown"}) == {"other": b"1"}


def test_a_value_is_a_copy(store):
    value = bytearray(b"before")
    store.put("a", "k", value)
    value[:] = b"after!"
    assert value_of(store, "a", "k") == b"before"


@pytest.mark.parametrize("space", ["", "A", "a/b", "-a", "ä", "..", "a" * 64, "a\x00"])
def test_a_name_that_is_no_namespace_is_refused(store, space):
    for act in (
        lambda: store.put(space, "k", b""),
        lambda: store.get(space, "k"),
        lambda: store.all(space),
        lambda: store.remove(space, "k"),
    ):
        with pytest.raises(ValueError, match="is no namespace"):
            act()


def test_a_key_that_is_empty_or_too_long_is_refused(store):
    for key in ("", "k" * (LONGEST_KEY + 1), "é" * (LONGEST_KEY // 2 + 1)):
        with pytest.raises(ValueError, match="A key has 1 to 512 bytes"):
            store.put("a", key, b"")


def test_a_large_value_is_written_over_by_a_short_one_and_the_other_way_round(backend):
    store, other = backend.open(), backend.open()
    large, larger = os.urandom(LARGE), os.urandom(2 * LARGE)
    version = store.put("a", "k", large)
    assert other.get("a", "k").value == large
    assert other.put("a", "k", b"short", version) is not None
    assert store.get("a", "k").value == b"short"
    assert values_of(store, "a") == {"k": b"short"}
    store.put("a", "k", larger)
    version = other.put("a", "k", large)
    assert store.put("a", "k", larger, ABSENT) is None
    assert values_of(store, "a") == {"k": large}
    assert store.remove("a", "k", version)
    assert other.get("a", "k") is None
    assert values_of(other, "a") == {}
    store.close()
    other.close()


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
    ):
        with pytest.raises(ValueError, match="closed"):
            act()
    assert value_of(second, "a", "k") == b"1"
    second.close()
