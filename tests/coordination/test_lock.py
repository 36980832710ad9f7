"""A lock on a store is held by one process at a time, for as long as it wants."""

from __future__ import annotations

import time

import pytest

from sparkdrain.coordination.backends.memory import MemoryMetadataStore, SharedSpaces
from sparkdrain.coordination.lease import LEASES, StoredLease
from sparkdrain.coordination.lock import LockTaken, StoredLock
from sparkdrain.errors import Fenced


@pytest.fixture
def spaces():
    return SharedSpaces()


@pytest.fixture
def lock(spaces):
    def make(owner, seconds=0.3):
        store = MemoryMetadataStore(spaces)
        return StoredLock(StoredLease(store, "it", owner, seconds, time.monotonic))

    return make


def test_a_lock_that_is_held_stays_so_longer_than_its_lease(lock):
    taken = pytest.raises(LockTaken, match=r"'it' was not free for 1 s: one has it")
    with lock("one").held(5) as token, taken:
        lock("other").acquire(1)
    assert token == 1
    began = time.monotonic()
    assert lock("other").acquire(5) == 2
    assert time.monotonic() - began < 5, "it was released"


def test_only_its_owner_releases_a_lock(lock):
    one, other = lock("one", 60), lock("other", 60)
    one.acquire(0)
    other.release()
    one.check()
    with pytest.raises(LockTaken):
        other.acquire(0)
    one.release()
    assert other.acquire(0) == 2


def test_a_lock_that_was_lost_says_so(lock, spaces):
    one = lock("one", 60)
    one.acquire(0)
    one.check()
    MemoryMetadataStore(spaces).remove(LEASES, "it")
    one.renew()
    with pytest.raises(Fenced, match=r"The lock 'it' was lost"):
        one.check()


def test_a_lock_is_released_when_its_work_fails(lock):
    with pytest.raises(ZeroDivisionError), lock("one", 60).held(0):
        raise ZeroDivisionError
    assert lock("other", 60).acquire(0) == 2


def test_a_dead_holder_is_followed_when_its_lease_is_over(lock):
    lock("one").acquire(0)
    assert lock("other").acquire(5) == 2
