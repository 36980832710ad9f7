"""Of all candidates one leads, and a dead one is followed in time."""

from __future__ import annotations

import threading

import pytest

from sparkdrain.coordination.backends.memory import MemoryMetadataStore, SharedSpaces
from sparkdrain.coordination.lease import StoredLease
from sparkdrain.coordination.metadata import StoreDown
from sparkdrain.coordination.pulse import Pulse


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
    lease = StoredLease(store, "job", name, seconds, clock)
    return lease, lease


def test_one_candidate_leads_and_all_know_who(store, clock):
    (one, own), (other, others) = candidate(store, "one", clock), candidate(store, "other", clock)
    for _ in range(9):
        one.step()
        clock.now += other.step()
    assert own.token() == 1
    assert others.token() is None
    assert (own.other, others.other) == ("", "one")


def test_a_dead_leader_is_followed_within_its_lease_and_two_looks(store, clock):
    (one, _), (other, others) = candidate(store, "one", clock), candidate(store, "other", clock)
    one.step()
    other.step()
    while others.token() is None:
        clock.now += other.step()
    assert clock.now <= 6 + 2 * 6 / 6


def test_a_leader_that_resigns_is_followed_at_the_next_look_and_comes_not_back(store, clock):
    (one, own), (other, others) = candidate(store, "one", clock), candidate(store, "other", clock)
    one.step()
    other.step()
    one.resign()
    assert own.token() is None
    one.step()
    assert own.token() is None
    other.step()
    assert others.token() == 2


def test_a_store_that_is_down_ends_the_lead_before_others_may_lead(store, clock):
    one, own = candidate(store, "one", clock)
    one.step()
    store.is_down = True
    led = []
    while clock.now < 6:
        pause = one.step()
        assert one.problem == "the store is down"
        if own.token():
            led.append(clock.now)
        clock.now += pause
    assert 4 < max(led) < 6 * 0.9
    store.is_down = False
    one.step()
    assert own.token() == 2, "nobody else wanted to lead"
    assert not one.problem


def test_a_short_outage_costs_the_leader_nothing(store, clock):
    one, own = candidate(store, "one", clock)
    assert one.step() == 6 / 4
    clock.now += 2
    store.is_down = True
    for _ in range(2):
        assert one.step() == 1, "it tries again sooner"
        clock.now += 1
    store.is_down = False
    one.step()
    assert own.token() == 1


def test_an_error_that_nobody_knew_of_does_not_end_the_steps(monkeypatch):
    monkeypatch.setattr("sparkdrain.coordination.pulse._AFTER_ERROR", 0.01)
    again, steps = threading.Event(), []

    def step() -> float:
        steps.append(1)
        if len(steps) == 1:
            message = "odd"
            raise RuntimeError(message)
        again.set()
        return 60.0

    pulse = Pulse("odd", step)
    pulse.start()
    assert again.wait(30)
    assert pulse.close()
