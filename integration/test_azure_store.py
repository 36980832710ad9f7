"""Azurite's tables as a metadata store: the contract, answers that are lost, outages, users."""

from __future__ import annotations

import os
import time
import uuid

import pytest
from azurite_server import AzuriteServer, is_there

from sparkdrain.coordination.backend import StoreReach
from sparkdrain.coordination.backends import azure
from sparkdrain.coordination.backends.azure import CONNECTION_STRING, AzureStore
from sparkdrain.coordination.metadata import StoreDown
from sparkdrain.errors import BadSetup
from tests.support.drained_by_store import *  # noqa: F403 - the tests themselves
from tests.support.store_contract import *  # noqa: F403 - the tests themselves
from tests.support.store_contract import StoreOfKind, against_a_dict, value_of

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not is_there(), reason="there is no Node here, which runs Azurite"),
]


@pytest.fixture(scope="module", autouse=True)
def server():
    with AzuriteServer() as running, pytest.MonkeyPatch.context() as patch:
        patch.setenv(CONNECTION_STRING, running.connection_string())
        yield running


def new_store(_folder=None) -> StoreOfKind:
    return StoreOfKind(f"azure:jobs-{uuid.uuid4().hex}")


@pytest.fixture
def backend():
    return new_store()


TestAzure = against_a_dict(new_store, examples=5)


def test_all_machines_can_open_it(backend):
    assert backend.stores.reach(backend.address) is StoreReach.NETWORK


def test_a_write_whose_answer_is_lost_is_told_as_done(backend, monkeypatch):
    """The client repeats a request whose answer does not come."""
    store = AzureStore(backend.address.place, os.environ)
    version = store.put("a", "k", b"1")
    update = store._table.update_entity

    def twice(*arguments, **conditions):
        update(*arguments, **conditions)
        return update(*arguments, **conditions)

    monkeypatch.setattr(store._table, "update_entity", twice)
    written = store.put("a", "k", b"2", version)
    assert written == store.get("a", "k").version
    assert store.put("a", "k", b"3", version) is None
    store.close()


def test_of_two_who_remove_a_version_one_is_told_so(backend):
    one, other = backend.open(), backend.open()
    version = one.put("a", "k", b"1")
    assert [one.remove("a", "k", version), other.remove("a", "k", version)] == [True, False]
    one.close()
    other.close()


def test_an_outage_is_told_and_over_when_the_service_is_back(backend, server):
    store = AzureStore(backend.address.place, os.environ)
    version = store.put("a", "k", b"1")
    time.sleep(6.5)  # Azurite writes to its disk each 5 s
    server.stop()
    with pytest.raises(StoreDown, match=f"azure:{backend.address.place} cannot be reached"):
        store.get("a", "k")
    server.start()
    assert value_of(store, "a", "k") == b"1"
    assert store.put("a", "k", b"2", version) is not None
    store.close()


def test_a_service_that_hangs_hangs_nobody(backend, server, monkeypatch):
    monkeypatch.setattr(azure, "_ANSWER_SECONDS", 1.0)
    store = backend.open()
    server.freeze()
    try:
        with pytest.raises(StoreDown, match="has not answered for 1 s"):
            store.put("a", "k", b"1")
    finally:
        server.thaw()
    store.close()


def test_a_wrong_key_is_told_and_no_key_is(backend, server, monkeypatch):
    wrong = "c2VzYW1l" * 8
    monkeypatch.setenv(CONNECTION_STRING, server.connection_string(wrong))
    with pytest.raises(
        BadSetup, match=rf"refuses this user \(status 403\).*{CONNECTION_STRING}"
    ) as told:
        backend.open()
    assert wrong not in str(told.value)
    assert told.value.__cause__.__cause__ is None


def test_a_thousand_records_are_one_query(backend):
    store = AzureStore(backend.address.place, os.environ)
    for number in range(1000):
        store.put("beats", f"host-{number}", b"x" * 200)
    begin = time.monotonic()
    assert len(store.all("beats")) == 1000
    print(f"1,000 records listed in {time.monotonic() - begin:.3f} s")
    store.close()
