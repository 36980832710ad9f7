"""Nobody works by a version before all have stopped, nor by one that has timed out."""

from __future__ import annotations

import pytest

from sparkdrain.coordination.backends.memory import MemoryMetadataStore, SharedSpaces
from sparkdrain.coordination.barrier import BarrierPhase, GroupModel
from sparkdrain.coordination.debounce import Debounce
from sparkdrain.coordination.group_leader import GroupLeader, read_model
from sparkdrain.coordination.group_member import GroupMember, SlotWork
from sparkdrain.coordination.locality import LOCALITY, LastHome, Locality
from sparkdrain.coordination.membership import Heartbeat, MemberRecord
from sparkdrain.coordination.names import key_of
from sparkdrain.errors import Fenced

SETTLE, TIMEOUT, SECONDS = 2, 10, 30


class Beats:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Done(SlotWork):
    """What a member was told to do."""

    def __init__(self) -> None:
        self.words: list[object] = []

    def start(self, version, slots):
        self.words.append((version, sorted(slots)))

    def stop(self):
        self.words.append("stop")


class Party:
    """A group whose processes share a clock."""

    def __init__(self, slots: int = 4) -> None:
        self.store = MemoryMetadataStore(SharedSpaces())
        self.clock = Beats()
        self.slots = slots
        self.done: dict[str, Done] = {}
        self.members: dict[str, GroupMember] = {}
        self.leader = self.new_leader()
        self.token = 1

    def new_leader(self) -> GroupLeader:
        return GroupLeader(
            self.store,
            "party",
            self.slots,
            seconds=SECONDS,
            settle=SETTLE,
            timeout=TIMEOUT,
            clock=self.clock,
        )

    def add(self, name: str, location: str = "") -> None:
        self.done[name] = Done()
        lives = iter(range(100))
        self.members[name] = GroupMember(
            self.store,
            "party",
            name,
            location,
            self.done[name],
            lambda: f"{name}{next(lives)}",
            seconds=SECONDS,
            clock=self.clock,
        )

    def go(self, seconds: int, *silent: str) -> None:
        for _ in range(seconds):
            self.clock.now += 1
            for name, member in self.members.items():
                if name not in silent:
                    for _ in range(4):
                        member.step()
            self.leader.step(self.token)

    @property
    def model(self) -> GroupModel:
        return read_model(self.store, "party")


@pytest.fixture
def party():
    return Party()


def test_all_join_and_then_all_work(party):
    party.add("a")
    party.go(2)
    party.add("b")
    party.go(8)
    assert party.model.version == 1, "changes in a short time are one version"
    assert party.model.phase is BarrierPhase.END
    assert party.done["a"].words == [(1, [0, 2])]
    assert party.done["b"].words == [(1, [1, 3])]


def test_a_newcomer_waits_and_nobody_works_between_stop_and_end(party):
    party.add("a")
    party.go(8)
    party.add("b")
    party.go(8)
    assert party.done["a"].words == [(1, [0, 1, 2, 3]), "stop", (2, [0, 1])]
    assert party.done["b"].words == [(2, [2, 3])]


def test_a_member_that_does_not_stop_delays_the_version_until_it_must_be_dead(party):
    party.add("a")
    party.add("b")
    party.go(8)
    party.go(TIMEOUT, "b")
    assert party.model.version == 1, "it may only be slow"
    party.go(12, "b")
    assert party.members["b"].works() == 1
    party.go(20, "b")
    assert party.members["b"].works() == 0
    assert party.done["a"].words[-1] == (party.model.version, [0, 1, 2, 3])


def test_a_member_that_lives_and_does_not_join_times_the_version_out(party):
    """It tells that it lives, and does not look at the model."""
    party.add("a")
    party.go(8)
    deaf = Heartbeat(party.store, "party", MemberRecord("b", "1", joined=1), party.clock)
    assert deaf.begin()
    party.go(4)
    assert (party.model.version, party.model.phase) == (2, BarrierPhase.START)
    for _ in range(20):
        assert deaf.write(deaf.record)
        party.go(1)
    assert (party.model.version, party.model.phase) == (3, BarrierPhase.END)
    assert sorted(party.model.members) == ["a"]
    assert party.done["a"].words == [(1, [0, 1, 2, 3]), "stop", (3, [0, 1, 2, 3])]
    for _ in range(20):
        assert deaf.write(deaf.record)
        party.go(1)
    assert party.model.version == 3, "it is asked again when it has looked"


def test_one_that_works_by_an_old_version_holds_the_next_one_back(party):
    party.add("a")
    party.go(8)
    works = Heartbeat(
        party.store, "party", MemberRecord("b", "1", joined=1, seconds=SECONDS), party.clock
    )
    assert works.begin()
    party.go(4)
    works.write(MemberRecord("b", "1", joined=2, seconds=SECONDS))
    party.go(1)
    assert party.model.phase is BarrierPhase.END
    works.write(MemberRecord("b", "1", joined=2, runs=2, seconds=SECONDS))
    party.members["a"].leave()
    for _ in range(20):
        party.go(1, "a")
    assert (party.model.version, party.model.phase) >= (3, BarrierPhase.START)
    party.add("c")
    for _ in range(15):
        works.write(works.record)
        party.go(1, "a")
    assert party.done["c"].words == [], "b has not said that it stopped"
    works.write(MemberRecord("b", "1", joined=2, runs=0, seconds=SECONDS))
    for _ in range(15):
        works.write(works.record)
        party.go(1, "a")
    assert party.done["c"].words[-1][1] == [0, 1, 2, 3]


@pytest.mark.parametrize("phase", list(BarrierPhase))
def test_a_leader_that_dies_is_followed_by_one_that_finishes_or_replaces_the_version(phase):
    party = Party()
    party.add("a")
    party.go(8)
    party.add("b")
    silent = ("b",) if phase is BarrierPhase.TIMEOUT else ()
    while (party.model.version, party.model.phase) != (2, phase):
        party.go(1, *(silent if party.model.version == 2 else ()))
        assert party.clock.now < 100
    before, party.token = party.leader, 2
    party.leader = party.new_leader()
    party.go(8)
    assert party.model.phase is BarrierPhase.END
    assert party.model.version == (3 if phase is BarrierPhase.TIMEOUT else 2)
    assert sorted(party.model.members) == ["a", "b"]
    with pytest.raises(Fenced):
        before.step(1)


def test_who_has_left_is_replaced_at_once_and_forgotten(party):
    party.add("a")
    party.add("b")
    party.go(8)
    party.members["b"].leave()
    assert party.done["b"].words[-1] == "stop"
    party.go(8, "b")
    assert party.done["a"].words[-1] == (2, [0, 1, 2, 3])
    assert list(party.store.all("sparkdrain-members-v1")) == [key_of("party", "a")]


def test_a_member_that_was_dead_comes_back_with_another_life(party):
    party.add("a")
    party.add("b")
    party.go(8)
    party.go(100, "b")
    assert party.done["a"].words[-1] == (2, [0, 1, 2, 3])
    party.go(20)
    assert party.model.members["b"] == "b1"
    assert party.done["b"].words == [(1, [1, 3]), "stop", (3, [2, 3])]


def test_more_members_than_slots_wait_and_are_not_stopped():
    party = Party(2)
    for name in "abc":
        party.add(name)
    party.go(8)
    assert party.model.phase is BarrierPhase.END
    assert sorted(party.model.members) == ["a", "b", "c"]
    assert party.done["c"].words == [(1, [])]
    party.members["a"].leave()
    party.go(10, "a")
    assert party.done["c"].words[-1] == (2, [0])
    assert party.done["b"].words[-1] == (2, [1]), "it has kept its slot"


def test_slots_of_one_that_is_gone_go_to_its_sibling(party):
    for name, location in (("a", "x"), ("b", "y"), ("c", "y"), ("d", "x")):
        party.add(name, location)
    party.slots = 4
    party.go(8)
    assert party.model.homes == {0: "a", 1: "d", 2: "b", 3: "c"}
    before = party.model.homes
    party.members["d"].leave()
    party.go(10, "d")
    moved = {slot: name for slot, name in party.model.homes.items() if before[slot] != name}
    assert moved == {1: "a"}


def test_where_slots_were_is_told_by_their_owners_and_outlives_everything(party):
    party.add("a", "x")
    party.go(8)
    told = Locality(party.store, "party").last()
    assert told == dict.fromkeys(range(4), LastHome("x", "a"))
    Locality(party.store, "party").tell([1], LastHome("y", "b"))
    assert Locality(party.store, "party").last()[1] == LastHome("y", "b"), "the last one wins"
    assert Locality(party.store, "another run").last() == {}
    party.store.put(LOCALITY, key_of("party", "2"), b'{"name": "a"}')
    party.store.put(LOCALITY, key_of("party", "3"), b"odd")
    assert Locality(party.store, "party").last()[2] == LastHome("", "a")
    assert 3 not in Locality(party.store, "party").last()


def test_models_are_read_again_and_those_of_nobody_are_refused():
    model = GroupModel(3, BarrierPhase.START, {"a": "1"}, {0: "a"}, frozenset({("b", "2")}))
    assert GroupModel.decode(model.encode()) == model
    assert GroupModel.decode(b"") == GroupModel()
    old = b'{"version": 1, "phase": "END", "members": {}, "homes": {}}'
    assert GroupModel.decode(old) == GroupModel(1)
    with pytest.raises(ValueError, match="lacks a part of a group's model"):
        GroupModel.decode(b'{"version": 1}')


def test_what_changes_is_settled_when_it_has_not_changed_for_a_while():
    settled = Debounce[str](5)
    assert [settled.is_settled(*each) for each in (("a", 0), ("a", 4), ("b", 5), ("b", 9))] == [
        False
    ] * 4
    assert settled.is_settled("b", 10)
    assert not settled.is_settled("a", 11)


def test_barriers_do_not_wait_for_who_has_left(party):
    party.add("a")
    party.add("b")
    party.go(3)
    party.leader.step(1)
    while party.model.phase is not BarrierPhase.START:
        party.go(1)
    party.members["b"].leave()
    party.leader.step(1)
    assert party.model.phase is BarrierPhase.TIMEOUT


def test_a_member_looks_once_more_between_its_word_and_its_work():
    """A leader that starts the next version in between has not heard that it works."""
    party = Party()
    party.add("a")
    party.go(3)
    member, put = party.members["a"], party.store.put
    while party.model.phase is not BarrierPhase.END:
        member.step()
        party.leader.step(1)
    assert party.done["a"].words == []

    def put_and_start_another(namespace, key, value, *more):
        written = put(namespace, key, value, *more)
        if b'"runs": 1' in value:
            party.store.put = put
            other = Heartbeat(party.store, "party", MemberRecord("b", "1", joined=1), party.clock)
            assert other.begin()
            party.leader.step(1)
            party.clock.now += SETTLE
            party.leader.step(1)
            assert (party.model.version, party.model.phase) == (2, BarrierPhase.START)
        return written

    party.store.put = put_and_start_another
    for _ in range(4):
        member.step()
    assert party.store.put is put, "it has told that it works"
    assert party.done["a"].words == []
    assert member.works() == 0
