"""The metadata stores that need no service do what every store must do."""

from __future__ import annotations

import threading

import pytest

from sparkdrain.coordination.backend import StoreReach
from sparkdrain.coordination.metadata import ANY
from tests.support.store_contract import *  # noqa: F403 - the tests themselves
from tests.support.store_contract import StoreOfKind, against_a_dict, value_of

KINDS = ("memory", "file", "rocksdb")


@pytest.fixture(params=KINDS)
def backend(request, tmp_path):
    return StoreOfKind(f"{request.param}:{tmp_path}/store")


TestMemory = against_a_dict(lambda folder: StoreOfKind(f"memory:{folder}"))
TestFile = against_a_dict(lambda folder: StoreOfKind(f"file:{folder}/store"))
TestRocks = against_a_dict(lambda folder: StoreOfKind(f"rocksdb:{folder}/store"))


class Slow(str):
    """What version is expected of a record; comparing it takes until the test says so."""

    compared, may_go_on = threading.Event(), threading.Event()

    def __eq__(self, other):
        if other == ANY:
            return False
        self.compared.set()
        assert self.may_go_on.wait(60)
        return str(self) == other

    __hash__ = str.__hash__


def test_who_expects_the_same_waits_for_who_was_first(backend):
    """Comparing and writing is one step, whichever handle of the store does it."""
    handle, other = backend.open(), backend.open()
    before = handle.put("a", "k", b"before")
    Slow.compared.clear()
    Slow.may_go_on.clear()
    won = []

    def change(handle, version, value):
        won.append(value if handle.put("a", "k", value, version) else None)

    first = threading.Thread(target=change, args=(handle, Slow(before), b"first"))
    second = threading.Thread(target=change, args=(other, before, b"second"))
    first.start()
    assert Slow.compared.wait(60)
    second.start()
    second.join(0.3)  # as long as it takes, if nothing keeps it
    Slow.may_go_on.set()
    first.join(60)
    second.join(60)
    assert sorted(won, key=str) == [None, b"first"]
    assert value_of(other, "a", "k") == b"first"
    handle.close()
    other.close()


def test_each_store_says_who_can_open_it(tmp_path):
    reaches = [StoreOfKind(f"{kind}:{tmp_path}/store") for kind in KINDS]
    assert [each.stores.reach(each.address) for each in reaches] == [
        StoreReach.PROCESS,
        StoreReach.MACHINE,
        StoreReach.MACHINE,
    ]
    assert StoreReach.PROCESS < StoreReach.MACHINE < StoreReach.NETWORK
