"""A partition is handed over in order, each event once, whatever the client library does."""

from __future__ import annotations

import contextlib
import threading
from datetime import datetime, timezone
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkdrain.io.eventhubs import follower as module
from sparkdrain.io.eventhubs.errors import (
    EventHubsDataLost,
    EventHubsRefused,
    EventHubsUnreachable,
)
from sparkdrain.io.eventhubs.events_reader import HubReader
from sparkdrain.io.eventhubs.follower import Follower
from sparkdrain.io.kafka.client import LostRecords, Partition
from tests.support.waiting import wait_until

PARTITION = Partition("h", 0)
NOON = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)


def event(number, key=None, properties=None):
    return SimpleNamespace(
        sequence_number=number,
        enqueued_time=NOON,
        partition_key=key,
        body=[b"%d" % number],
        properties=properties or {},
    )


class FakeHub:
    """Gives what it has from where it is asked; a call may end with an error after some events.

    Args:
        stored: sequence numbers that there are.
        calls: of each call, how many events it gives at once, after how many it fails, and from
            how far before the position that was asked for.
    """

    def __init__(self, stored, calls=()):
        self.stored = stored
        self.calls = list(calls)
        self.asked = []

    def consumer(self):
        return FakeConsumer(self)

    @contextlib.contextmanager
    def telling(self):
        yield

    def failure(self, error):
        kind = EventHubsRefused if isinstance(error, PermissionError) else EventHubsUnreachable
        return kind(str(error))


class FakeConsumer:
    def __init__(self, hub):
        self.hub = hub
        self.closed = threading.Event()

    def receive_batch(self, on_event_batch, *, starting_position, on_error, **_):
        self.hub.asked.append(starting_position)
        calls = self.hub.calls
        size, fails_after, before = calls.pop(0) if calls else (100, None, 0)
        wanted = [n for n in self.hub.stored if n >= starting_position - before]
        given_ = wanted if fails_after is None else wanted[:fails_after]
        for at in range(0, len(given_), size):
            if self.closed.is_set():
                return
            on_event_batch(None, [event(n) for n in given_[at : at + size]])
        if fails_after is not None:
            on_error(None, self.hub.error if hasattr(self.hub, "error") else OSError("away"))
        self.closed.wait(30)

    def close(self):
        self.closed.set()


@pytest.fixture(autouse=True)
def _soon(monkeypatch):
    monkeypatch.setattr(module, "_AGAIN", 0.001)


def _followed(hub, begin, until):
    taken, failures = [], []
    one = Follower(hub, PARTITION, begin, properties=False, take=taken.append, fail=failures.append)
    one.start()
    try:
        wait_until(lambda: until(taken, failures), 20)
    finally:
        one.stop()
        one.join()
    return [n for batch in taken for n in batch.offsets], failures


@given(
    st.integers(0, 12),
    st.integers(0, 5),
    st.lists(st.tuples(st.integers(1, 4), st.integers(0, 5), st.integers(0, 3)), max_size=4),
)
def test_each_event_is_handed_over_once_and_in_order_however_often_the_client_fails(
    count, begin, calls
):
    hub = FakeHub(list(range(begin + count)), calls)
    last = begin + count

    def done(taken, failures):
        return (taken and taken[-1].after == last) or (count == 0 and not hub.calls) or failures

    numbers, failures = _followed(hub, begin, done)
    assert numbers == list(range(begin, last))
    assert not failures


def test_events_that_are_missing_are_never_passed_over():
    numbers, failures = _followed(FakeHub([5, 6, 7]), 3, lambda taken, failures: failures)
    assert numbers == []
    assert isinstance(failures[0], EventHubsDataLost)


def test_a_refusal_ends_it_and_is_told_once():
    hub = FakeHub([0, 1, 2], [(1, 1, 0)])
    hub.error = PermissionError("no right to listen")
    numbers, failures = _followed(hub, 0, lambda taken, failures: failures)
    assert numbers == [0]
    assert [str(one) for one in failures] == ["no right to listen"]
    assert hub.asked == [0]


def test_an_event_has_its_key_body_time_and_properties():
    found = module.fetched(
        PARTITION,
        [event(7, b"key", {b"text": "word", "bytes": b"b", "number": 4, "none": None})],
        properties=True,
    )
    assert (found.offsets, found.keys, found.values, found.after) == ([7], [b"key"], [b"7"], 8)
    assert found.times == [int(NOON.timestamp() * 1000)]
    assert found.headers == [(("text", b"word"), ("bytes", b"b"), ("number", b"4"), ("none", None))]


def test_what_came_for_a_place_that_was_left_is_not_given_out():
    reader = HubReader(FakeHub(list(range(10))), properties=False)
    reader.follow(PARTITION, 0)
    wait_until(lambda: reader._ready)
    reader.follow(PARTITION, 4)
    numbers = []
    wait_until(lambda: numbers.extend(n for b in reader.poll(1, 500) for n in b.offsets) or numbers)
    reader.close()
    assert numbers == [4, 5, 6, 7, 8, 9]


def test_what_is_lost_of_a_partition_comes_in_its_place():
    reader = HubReader(FakeHub([5, 6, 7]), properties=False)
    reader.follow(PARTITION, 3)
    found = []
    wait_until(lambda: found.extend(reader.poll(1, 500)) or found)
    reader.close()
    (lost,) = found
    assert isinstance(lost, LostRecords)
    assert lost.partition == PARTITION
    assert isinstance(lost.error, EventHubsDataLost)


def test_who_brings_events_waits_while_too_many_are_here(monkeypatch):
    monkeypatch.setattr("sparkdrain.io.eventhubs.events_reader._ROOM", 3)
    monkeypatch.setattr("sparkdrain.io.eventhubs.events_reader._LOOK", 0.001)
    hub = FakeHub(list(range(40)), [(1, None, 0)])
    reader = HubReader(hub, properties=False)
    reader.follow(PARTITION, 0)
    wait_until(lambda: reader._waiting > 3)
    assert reader._waiting == 4
    numbers = []
    wait_until(
        lambda: [numbers.extend(b.offsets) for b in reader.poll(1, 2)] and len(numbers) >= 40
    )
    reader.close()
    assert numbers == list(range(40))


def test_a_partition_that_is_paused_hands_over_nothing_until_it_goes_on():
    taken = []
    hub = FakeHub([0, 1, 2], [(1, None, 0)])
    one = Follower(hub, PARTITION, 0, properties=False, take=taken.append, fail=taken.append)
    one.pause()
    one.start()
    wait_until(lambda: hub.asked)
    assert not taken
    one.resume()
    wait_until(lambda: len(taken) == 3)
    one.stop()
    one.join()
