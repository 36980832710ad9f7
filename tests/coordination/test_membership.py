"""Members live as long as they tell so, and are dead at the same time for themselves and others."""

from __future__ import annotations

import pytest

from sparkdrain.coordination.backends.memory import MemoryMetadataStore, SharedSpaces
from sparkdrain.coordination.membership import MEMBERS, Heartbeat, MemberRecord, Members
from sparkdrain.coordination.metadata import StoreDown
from sparkdrain.coordination.names import key_of, name_of, prefix_of


class Ticks:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Counting(MemoryMetadataStore):
    """Counts requests, and may lose answers."""

    requests = 0
    loses = False

    def put(self, *arguments):
        self.requests += 1
        written = super().put(*arguments)
        if self.loses:
            message = "no answer"
            raise StoreDown(message)
        return written

    def get(self, *arguments):
        self.requests += 1
        return super().get(*arguments)


@pytest.fixture
def spaces():
    return SharedSpaces()


@pytest.fixture
def clock():
    return Ticks()


@pytest.fixture
def store(spaces):
    return Counting(spaces)


def member(store, clock, name="one", life="first", **more):
    return Heartbeat(store, "group", MemberRecord(name, life, seconds=30.0, **more), clock)


def test_a_heartbeat_is_one_request(store, clock):
    one = member(store, clock)
    assert one.begin()
    store.requests = 0
    for _ in range(10):
        clock.now += 5
        assert one.write(one.record)
    assert store.requests == 10


def test_a_silent_member_has_stopped_before_others_take_it_for_dead(store, clock):
    one, members = member(store, clock), Members(store, "group", clock)
    assert one.begin()
    assert members.look()["one"].is_there(clock())
    clock.now = 26
    assert one.is_alive()
    clock.now = 28
    assert not one.is_alive()
    assert not one.write(one.record)
    assert not members.look()["one"].is_dead(clock())
    clock.now = 30
    assert members.look()["one"].is_dead(clock())


def test_a_store_that_is_down_for_a_while_kills_no_member(store, clock):
    one, members = member(store, clock), Members(store, "group", clock)
    assert one.begin()
    members.look()
    store.loses = True
    for clock.now in (5, 10, 15, 20):
        with pytest.raises(StoreDown):
            one.write(one.record)
    store.loses = False
    clock.now = 25
    assert one.write(one.record), "its own writes are no one else's"
    assert members.look()["one"].is_there(clock())
    clock.now = 50
    assert one.is_alive()


def test_a_name_has_one_member(store, clock):
    one, other = member(store, clock), member(store, clock, life="second")
    assert one.begin()
    for clock.now in range(0, 60, 5):
        assert one.write(one.record)
        assert not other.begin()
    clock.now += 29
    assert not other.begin()
    clock.now += 1
    assert other.begin()
    assert not one.write(one.record)


def test_a_member_that_was_taken_for_dead_lives_no_more(store, clock):
    one, members = member(store, clock), Members(store, "group", clock)
    assert one.begin()
    members.remove(members.look()["one"])
    assert not one.write(one.record)
    assert not one.is_alive()
    assert members.look() == {}


def test_a_member_that_has_written_since_is_not_removed(store, clock):
    one, members = member(store, clock), Members(store, "group", clock)
    assert one.begin()
    before = members.look()["one"]
    assert one.write(one.record)
    members.remove(before)
    assert one.write(one.record)


def test_a_member_that_leaves_is_not_waited_for(store, clock):
    one, other = member(store, clock), member(store, clock, life="second")
    members = Members(store, "group", clock)
    assert one.begin()
    one.end()
    assert not members.look()["one"].is_there(clock())
    assert other.begin()
    one.end()
    assert other.write(other.record), "a second end does nothing"


def test_groups_do_not_see_each_other(store, clock):
    members = Members(store, "a", clock)
    for group in ("a", "a/b", "ab", "b"):
        Heartbeat(store, group, MemberRecord("b/c", group), clock).begin()
    assert {name: seen.record.life for name, seen in members.look().items()} == {"b/c": "a"}
    assert name_of(key_of("a", "b/c")) == "b/c"


def test_long_names_stay_apart_and_fit_into_a_store(store):
    long = "ü" * 400
    store.put(MEMBERS, key_of(long, long), b"1")
    assert key_of(long, long) != key_of(long, f"{long}!")
    assert key_of(long, "one").startswith(prefix_of(long))


def test_records_of_other_releases_are_read(store, clock):
    store.put(MEMBERS, key_of("group", "old"), b'{"name": "old", "life": "1"}')
    store.put(MEMBERS, key_of("group", "new"), b'{"name": "new", "life": "1", "colour": 3}')
    store.put(MEMBERS, key_of("group", "odd"), b"[]")
    found = Members(store, "group", clock).look()
    assert found["old"].record == MemberRecord("old", "1")
    assert sorted(found) == ["new", "old"]
