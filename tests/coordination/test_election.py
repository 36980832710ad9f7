"""Of all candidates one leads, and a dead one is followed in time."""

from __future__ import annotations

import threading
import time

import pytest

from sparkdrain.coordination.backends.file import FileStore
from sparkdrain.coordination.backends.memory import MemoryMetadataStore, SharedSpaces
from sparkdrain.coordination.election import Election
from sparkdrain.coordination.leading import Leading
from sparkdrain.coordination.lease import LEASES, StoredLease
from sparkdrain.coordination.metadata import StoreDown


class Seconds:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Failing(MemoryMetadataStore):
    is_down = False

    def put(self, *arguments):
        self._fail()
        return super().put(*arguments)

    def get(self, *arguments):
        self._fail()
        return super().get(*arguments)

    def _fail(self):
        if self.is_down:
            message = "the store is down"
            raise StoreDown(message)


@pytest.fixture
def clock():
    return Seconds()


@pytest.fixture
def store():
    return Failing(SharedSpaces())


def candidate(store, name, clock, seconds=6.0):
    return Election(StoredLease(store, "job", name, seconds, clock))


def test_one_candidate_leads_and_all_know_who(store, clock):
    one, other = candidate(store, "one", clock), candidate(store, "other", clock)
    for _ in range(9):
        one.step()
        clock.now += other.step()
    assert one.token() == 1
    assert other.token() is None
    assert (one.other, other.other) == ("", "one")


def test_a_dead_leader_is_followed_within_its_lease_and_two_looks(store, clock):
    one, other = candidate(store, "one", clock), candidate(store, "other", clock)
    one.step()
    other.step()
    while other.token() is None:
        clock.now += other.step()
    assert clock.now <= 6 + 2 * 6 / 6


def test_a_leader_that_resigns_is_followed_at_the_next_look_and_comes_not_back(store, clock):
    one, other = candidate(store, "one", clock), candidate(store, "other", clock)
    one.step()
    other.step()
    one.resign()
    assert one.token() is None
    one.step()
    assert one.token() is None
    other.step()
    assert other.token() == 2


def test_a_store_that_is_down_ends_the_lead_before_others_may_lead(store, clock):
    one = candidate(store, "one", clock)
    one.step()
    store.is_down = True
    led = []
    while clock.now < 6:
        pause = one.step()
        assert one.problem == "the store is down"
        if one.token():
            led.append(clock.now)
        clock.now += pause
    assert 4 < max(led) < 6 * 0.9
    store.is_down = False
    one.step()
    assert one.token() == 2, "nobody else wanted to lead"
    assert not one.problem


def test_a_short_outage_costs_the_leader_nothing(store, clock):
    one = candidate(store, "one", clock)
    assert one.step() == 2
    clock.now += 2
    store.is_down = True
    for _ in range(2):
        assert one.step() == 1, "it tries again sooner"
        clock.now += 1
    store.is_down = False
    one.step()
    assert one.token() == 1


class Heard:
    def __init__(self, store, name, seconds=0.6) -> None:
        self.words: list[object] = []
        self.began, self.ended = threading.Event(), threading.Event()
        self.election = Election(StoredLease(store, "job", name, seconds, time.monotonic))
        self.leading = Leading(self.election, self._began, self._ended)

    def _began(self, token):
        self.words.append(token)
        self.began.set()

    def _ended(self):
        self.words.append("ended")
        self.ended.set()


def test_threads_lead_one_after_the_other(tmp_path):
    one, other = (Heard(FileStore(tmp_path), name) for name in ("one", "other"))
    with one.leading:
        assert one.began.wait(30)
        with other.leading:
            assert not other.began.wait(1)
            one.leading.close()
            assert other.began.wait(30)
    assert one.words == [1, "ended"]
    assert other.words == [2, "ended"]


def test_the_end_of_a_lease_is_told_while_the_store_hangs():
    spaces, go_on = SharedSpaces(), threading.Event()

    class Hanging(MemoryMetadataStore):
        hangs = False

        def put(self, namespace, *arguments):
            if self.hangs and namespace == LEASES:
                assert go_on.wait(60)
            return super().put(namespace, *arguments)

    store = Hanging(spaces)
    one = Heard(store, "one")
    with one.leading:
        assert one.began.wait(30)
        store.hangs = True
        assert one.ended.wait(30)
        assert one.words == [1, "ended"]
        go_on.set()


def test_an_error_that_nobody_knew_of_does_not_end_the_candidate():
    class Odd(MemoryMetadataStore):
        was_odd = False

        def get(self, *arguments):
            if not self.was_odd:
                self.was_odd = True
                message = "odd"
                raise RuntimeError(message)
            return super().get(*arguments)

    one = Heard(Odd(), "one")
    with one.leading:
        assert one.began.wait(30)
