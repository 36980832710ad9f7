"""A real ZooKeeper as a metadata store: the contract, outages, users."""

from __future__ import annotations

import threading
import time
import uuid

import pytest
from zookeeper_server import ZooKeeperServer

from sparkdrain.coordination.backend import StoreReach
from sparkdrain.coordination.backends import zookeeper
from sparkdrain.coordination.backends.zookeeper import AUTH, ZooKeeperStore
from sparkdrain.coordination.metadata import StoreDown
from sparkdrain.errors import BadSetup
from tests.support.drained_by_store import *  # noqa: F403 - the tests themselves
from tests.support.store_contract import *  # noqa: F403 - the tests themselves
from tests.support.store_contract import StoreOfKind, against_a_dict, value_of

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", autouse=True)
def server():
    with ZooKeeperServer() as running:
        NOW.append(running)
        yield running
        NOW.clear()


NOW: list[ZooKeeperServer] = []


def new_store(_folder=None) -> StoreOfKind:
    return StoreOfKind(f"zookeeper:{NOW[0].address}/sparkdrain/{uuid.uuid4().hex}")


@pytest.fixture
def backend():
    return new_store()


TestZooKeeper = against_a_dict(new_store, examples=5)


def test_all_machines_can_open_it(backend):
    assert backend.stores.reach(backend.address) is StoreReach.NETWORK


def test_a_record_is_written_again_by_one_request_each(backend, monkeypatch):
    store = ZooKeeperStore(backend.address.place)
    version = store.put("beats", "me", b"0")
    asked = []
    call = store._client._call
    monkeypatch.setattr(
        store._client,
        "_call",
        lambda request, answer: asked.append(request) or call(request, answer),
    )
    for beat in range(5):
        version = store.put("beats", "me", b"%d" % beat, version)
    assert len(asked) == 5
    store.close()


def test_an_outage_is_told_and_over_when_the_server_is_back(backend, server, monkeypatch):
    monkeypatch.setattr(zookeeper, "_ANSWER_SECONDS", 3.0)
    store = backend.open()
    version = store.put("a", "k", b"1")
    server.stop()
    with pytest.raises(StoreDown, match=f"{server.address}.*(cannot be reached|not answered)"):
        store.get("a", "k")
    server.start()
    end = time.monotonic() + 20
    while True:
        try:
            assert value_of(store, "a", "k") == b"1"
            break
        except StoreDown:
            assert time.monotonic() < end
            time.sleep(0.1)
    assert store.put("a", "k", b"2", version) is not None
    store.close()


def test_a_server_that_hangs_hangs_nobody(backend, server, monkeypatch):
    monkeypatch.setattr(zookeeper, "_ANSWER_SECONDS", 1.0)
    store = backend.open()
    server.freeze()
    try:
        with pytest.raises(StoreDown, match="has not answered for 1 s"):
            store.put("a", "k", b"1")
        with pytest.raises(StoreDown, match="does not answer"):
            store.get("a", "k")
    finally:
        server.thaw()
    end = time.monotonic() + 20
    while time.monotonic() < end:
        try:
            store.put("a", "k", b"2")
            break
        except StoreDown:
            time.sleep(0.1)
    assert value_of(store, "a", "k") == b"2"
    store.close()


def test_where_nothing_answers_is_told_with_what_to_do():
    with pytest.raises(BadSetup, match=r"zookeeper:127.0.0.1:1/x does not answer within 0.5 s"):
        ZooKeeperStore("127.0.0.1:1/x", seconds=0.5)


def test_a_store_of_one_user_is_closed_to_others_and_no_password_is_told(backend, monkeypatch):
    backend.open().close()  # whose path everybody may use
    monkeypatch.setenv(AUTH, "me:sesame-1")
    own = backend.open()
    own.put("a", "k", b"1")
    further = StoreOfKind(f"{backend.text}/further")
    further.open().close()
    monkeypatch.setenv(AUTH, "other:sesame-2")
    stranger = backend.open()
    for act in (lambda: stranger.get("a", "k"), lambda: stranger.put("a", "new", b"")):
        with pytest.raises(StoreDown, match=f"refuses this user .*{AUTH}") as told:
            act()
        assert "sesame" not in str(told.value)
    with pytest.raises(BadSetup, match=f"refuses this user .*{AUTH}"):
        further.open()
    assert value_of(own, "a", "k") == b"1"
    own.close()
    stranger.close()


def test_a_thousand_records_are_listed_at_once(backend):
    store = backend.open()
    threads = [
        threading.Thread(
            target=lambda begin=begin: [
                store._store.put("beats", f"host-{n}", b"x" * 200)
                for n in range(begin, begin + 250)
            ]
        )
        for begin in range(0, 1000, 250)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    begin = time.monotonic()
    assert len(store.all("beats")) == 1000
    print(f"1,000 records listed in {time.monotonic() - begin:.3f} s")
    store.close()
