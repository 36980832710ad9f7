"""A store whose disk hangs hangs nobody."""

from __future__ import annotations

import threading

import pytest

from sparkdrain.coordination import timed_store
from sparkdrain.coordination.address import StoreAddress
from sparkdrain.coordination.backends import file
from sparkdrain.coordination.backends.memory import MemoryMetadataStore, SharedSpaces
from sparkdrain.coordination.metadata import StoreDown
from sparkdrain.coordination.stores import Stores
from sparkdrain.coordination.timed_store import TimedStore


class Hanging(MemoryMetadataStore):
    def __init__(self) -> None:
        super().__init__(SharedSpaces())
        self.go_on = threading.Event()

    def put(self, *arguments) -> str:
        assert self.go_on.wait(60)
        return super().put(*arguments)


def test_a_call_that_hangs_is_given_up_and_others_fail_at_once_until_it_ends() -> None:
    inner = Hanging()
    store = TimedStore(inner, "/far/away", 0.05)
    with pytest.raises(StoreDown, match=r"store in /far/away has not answered for 0.05 s"):
        store.put("runs", "a", b"1")
    with pytest.raises(StoreDown, match=r"store in /far/away does not answer"):
        store.get("runs", "a")
    store.close()
    inner.go_on.set()
    for thread in threading.enumerate():
        if thread.name == "metadata-store":
            thread.join(60)
    assert store.get("runs", "a").value == b"1", "later than its caller thinks"


def test_what_a_store_raises_is_raised() -> None:
    store = TimedStore(MemoryMetadataStore(SharedSpaces()), "memory")
    with pytest.raises(ValueError, match="no namespace"):
        store.get("no namespace", "a")


def test_stores_in_files_are_waited_for_for_a_time_only(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(timed_store.TimedStore.__init__, "__defaults__", (0.2,))
    go_on = threading.Event()
    store = Stores().open(StoreAddress("file", str(tmp_path)))
    monkeypatch.setattr(file.FileStore, "get", lambda *_: go_on.wait(60))
    try:
        with pytest.raises(StoreDown, match="has not answered"):
            store.get("runs", "a")
    finally:
        go_on.set()
