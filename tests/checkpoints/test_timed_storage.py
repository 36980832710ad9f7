"""A storage that hangs does not hang its driver."""

from __future__ import annotations

import threading

import pytest
from faulty_storage import Fault, FaultyStorage

from sparkdrain.checkpoints.storage import AlreadyThere, FileMissing, TimedStorage, read
from sparkdrain.errors import CheckpointFailed


def never(what):
    return Fault.NONE


def test_calls_that_end_are_those_of_the_storage():
    files = {}
    storage = TimedStorage(FaultyStorage(files, never))
    storage.write("a/b", iter([b"12", b"3"]))
    storage.publish("c/d", b"4")
    assert storage.list("a") == {"b": 3}
    assert storage.list("c") == {"d": 1}
    assert read(storage, "a/b") == b"123"
    storage.delete(["a/b"])
    with pytest.raises(FileMissing, match="a/b is missing"):
        read(storage, "a/b")
    with pytest.raises(AlreadyThere):
        storage.publish("c/d", b"5")


def test_a_call_that_hangs_is_given_up_and_others_fail_at_once_until_it_ends():
    go_on, hangs = threading.Event(), threading.Event()

    def ask(what):
        if what == "write a":
            hangs.set()
            assert go_on.wait(60)
        return Fault.NONE

    files, before = {}, set(threading.enumerate())
    storage = TimedStorage(FaultyStorage(files, ask), 0.05)
    with pytest.raises(CheckpointFailed, match=r"the storage of a has not answered for 0.05 s"):
        storage.write("a", [b"1"])
    assert hangs.is_set()
    with pytest.raises(CheckpointFailed, match="the storage of b does not answer"):
        storage.list("b")
    go_on.set()
    (thread,) = set(threading.enumerate()) - before
    thread.join(60)
    assert storage.list("b") == {}
    assert files == {"a": b"1"}  # later than its caller thinks
