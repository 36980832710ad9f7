"""A lease has one owner at a time, and its fencing token only grows."""

from __future__ import annotations

import pytest

from sparkdrain.coordination.backends.memory import MemoryMetadataStore, SharedSpaces
from sparkdrain.coordination.lease import LEASES, TOKENS, LeaseRecord, StoredLease
from sparkdrain.coordination.metadata import CorruptRecord, StoreDown


class Hands:
    """Seconds of one machine."""

    def __init__(self, now: float = 0.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


class LosingAnswers(MemoryMetadataStore):
    """Does what it is asked for, and may fail to say so."""

    loses = ""

    def put(self, namespace, key, value, version):
        written = super().put(namespace, key, value, version)
        if namespace == self.loses:
            message = "no answer"
            raise StoreDown(message)
        return written


@pytest.fixture
def spaces():
    return SharedSpaces()


@pytest.fixture
def lease(spaces):
    def make(owner, clock, seconds=10.0):
        return StoredLease(MemoryMetadataStore(spaces), "job", owner, seconds, clock)

    return make


def test_a_lease_has_one_owner(lease):
    one, other = lease("one", Hands()), lease("other", Hands())
    assert one.acquire()
    assert not other.acquire()
    assert (one.token(), other.token()) == (1, None)
    assert (one.other, other.other) == ("", "one")


def test_clocks_of_different_machines_are_never_compared(lease):
    """One is a year ahead, and neither takes the lease early or late for that."""
    ahead, behind = Hands(3e7), Hands()
    one, other = lease("one", ahead), lease("other", behind)
    assert one.acquire()
    assert not other.acquire()
    behind.now = 9.9
    assert not other.acquire()
    behind.now = 10.0
    assert other.acquire()


def test_a_lease_that_is_renewed_is_not_free(lease):
    clock = Hands()
    one, other = lease("one", clock), lease("other", clock)
    assert one.acquire()
    for clock.now in range(0, 50, 5):
        assert one.renew()
        assert not other.acquire()


def test_a_holder_stops_before_others_may_begin(lease):
    clock = Hands()
    one, other = lease("one", clock), lease("other", clock)
    assert one.acquire()
    assert not other.acquire()
    clock.now = 8.9
    assert one.token() == 1
    clock.now = 9.1
    assert one.token() is None
    assert not other.acquire()
    assert not one.renew(), "it has said that it has the lease no more"


def test_time_is_counted_from_before_a_renewal_was_sent(spaces):
    clock = Hands()

    class Slow(MemoryMetadataStore):
        def put(self, *arguments):
            written = super().put(*arguments)
            clock.now += 4
            return written

    one = StoredLease(Slow(spaces), "job", "one", 10, clock)
    other = StoredLease(MemoryMetadataStore(spaces), "job", "other", 10, clock)
    assert one.acquire()
    clock.now += 4.5
    assert one.token() == 1, "5 s are left: the answer took 4"
    assert one.renew()
    assert not other.acquire()
    clock.now += 5
    assert one.token() is None
    assert not other.acquire()


def test_a_lease_that_is_released_is_free_at_once(lease):
    one, other = lease("one", Hands()), lease("other", Hands())
    assert one.acquire()
    one.release()
    assert one.token() is None
    assert other.acquire()
    one.release()
    assert other.renew(), "a second release does nothing"


def test_tokens_grow_over_releases_ends_and_removals(lease, spaces):
    store, clock, tokens = MemoryMetadataStore(spaces), Hands(), []
    one, other = lease("one", clock), lease("other", clock)
    for how in ("release", "end", "removal", "both are removed", "release", "removal", "end"):
        assert one.acquire()
        assert not other.acquire()
        tokens.append(one.token())
        if how == "release":
            one.release()
        elif how in ("removal", "both are removed"):
            assert store.remove(LEASES, "job")
            assert not other.acquire(), "its holder may not have noticed"
        clock.now += 10
        assert one.token() is None
        assert other.acquire()
        tokens.append(other.token())
        other.release()
    assert tokens == sorted(set(tokens))
    store.remove(TOKENS, "job")
    assert one.acquire()
    assert one.token() > max(tokens), "the lease itself has a token too"


def test_a_holder_whose_lease_was_removed_loses_it_at_its_next_renewal(lease, spaces):
    one = lease("one", Hands())
    assert one.acquire()
    MemoryMetadataStore(spaces).remove(LEASES, "job")
    assert not one.renew()
    assert one.token() is None


def test_a_holder_that_was_paused_cannot_renew_what_another_has(lease):
    here, there = Hands(), Hands()
    one, other = lease("one", here), lease("other", there)
    assert one.acquire()
    assert not other.acquire()
    there.now = 10
    assert other.acquire()
    assert not one.renew()
    one.release()
    assert other.renew()


def test_a_renewal_whose_answer_was_lost_is_found(spaces):
    store, clock = LosingAnswers(spaces), Hands()
    one = StoredLease(store, "job", "one", 10, clock)
    assert one.acquire()
    store.loses = LEASES
    clock.now = 5
    with pytest.raises(StoreDown):
        one.renew()
    clock.now = 8.9
    assert one.token() == 1
    store.loses = ""
    assert one.renew()
    assert one.token() == 1
    store.loses = LEASES
    with pytest.raises(StoreDown):
        one.renew()
    store.loses = ""
    one.release()
    assert StoredLease(store, "job", "other", 10, clock).acquire()


def test_a_lease_whose_answer_was_lost_is_taken_again_at_once(spaces):
    store = LosingAnswers(spaces)
    one = StoredLease(store, "job", "one", 10, Hands())
    store.loses = LEASES
    with pytest.raises(StoreDown):
        one.acquire()
    assert one.token() is None
    store.loses = ""
    assert one.acquire()
    assert one.token() == 2


def test_another_process_of_the_same_name_waits_like_any_other(lease):
    assert lease("one", Hands()).acquire()
    assert not lease("one", Hands()).acquire()


def test_a_record_that_is_no_lease_is_named(lease, spaces):
    MemoryMetadataStore(spaces).put(LEASES, "job", b"{}")
    with pytest.raises(CorruptRecord, match=r"'job' in 'sparkdrain-leases-v1' is no lease: .*'own"):
        lease("one", Hands()).acquire()


def test_fields_of_later_releases_are_ignored():
    record = LeaseRecord("one", 3, 6.0)
    assert LeaseRecord.decode(record.encode()) == record
    assert LeaseRecord.decode(b'{"new": 1, ' + record.encode()[1:]) == record
