"""A group under accidents: outages, cuts, pauses, deaths at any request, answers that are lost."""

from __future__ import annotations

import itertools
import json
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparkdrain.coordination.barrier import BarrierPhase, GroupModel
from sparkdrain.coordination.election import Election
from sparkdrain.coordination.fenced import FencedRecord
from sparkdrain.coordination.group import GroupProcess
from sparkdrain.coordination.group_leader import GROUPS, GroupLeader, read_model
from sparkdrain.coordination.group_member import GroupMember, SlotWork
from sparkdrain.coordination.lease import LEASES, StoredLease
from sparkdrain.coordination.metadata import StoreDown
from sparkdrain.errors import Fenced
from tests.support.law import law
from tests.support.simulated import Machine, Troubled, World

SLOTS = 5
LEASE = 6.0
SECONDS = 12.0
"""Of members, which are asked to join several versions before they are taken for dead."""
ROUNDS = "rounds"


class Simulation:
    """A group whose processes are a world's machines, and what must always hold of it."""

    def __init__(self, chance: random.Random, trouble: float, mishaps: float = 0.0) -> None:
        self.world = World(chance, trouble, self.check)
        self.chance = chance
        self.mishaps = mishaps
        self.names = map(str, itertools.count())
        self.lives = itertools.count()
        self.elections: dict[Machine, Election] = {}
        self.members: dict[Machine, GroupMember] = {}
        self.stores: dict[Machine, Troubled] = {}
        self.slots: dict[Machine, frozenset[int]] = {}
        self.leaving: set[Machine] = set()
        self.started: set[tuple[str, int]] = set()
        self.checked = 0
        self.token_of_round = 0
        self.round = 0
        self.tokens: dict[int, str] = {}
        self.models: dict[str, tuple[int, int]] = {}
        self.ends: dict[int, BarrierPhase] = {}
        self.world.before_turn = self.mishap

    def add(self) -> None:
        name = next(self.names)
        self.world.add(name, self.process)

    def process(self, machine: Machine) -> None:
        store = Troubled(machine)
        lease = StoredLease(store, "group", machine.name, LEASE, machine.clock)
        election = Election(lease)
        leader = GroupLeader(
            store,
            "group",
            SLOTS,
            seconds=SECONDS,
            settle=0.3,
            timeout=2.2,
            clock=machine.clock,
        )
        simulation = self

        class Work(SlotWork):
            def start(self, version, slots):
                assert (machine.name, version) not in simulation.started, "a version resumed twice"
                simulation.started.add((machine.name, version))
                simulation.slots[machine] = slots

            def stop(self):
                simulation.slots[machine] = frozenset()

        member = GroupMember(
            store,
            "group",
            machine.name,
            f"host{int(machine.name) % 2}",
            Work(),
            lambda: f"life{next(self.lives)}",
            seconds=SECONDS,
            clock=machine.clock,
        )
        group = GroupProcess(election, leader, member, machine.clock)
        rounds = FencedRecord(store, ROUNDS, "group")
        self.elections[machine] = election
        self.members[machine] = member
        self.stores[machine] = store
        while machine not in self.leaving:
            pause = group.step()
            token = election.token()
            if token is not None:
                try:
                    found = rounds.claim(token)
                    number = int(found.value or b"0") + 1
                    rounds.write(found, token, str(number).encode())
                except (Fenced, StoreDown):
                    pass
            machine.sleep(pause)
        group.leave()

    def mishap(self, machine: Machine) -> None:
        """A process dies, leaders more often than others."""
        election = self.elections.get(machine)
        leads = election is not None and election.token() is not None
        if self.chance.random() < self.mishaps * (4 if leads else 1):
            machine.dies = True

    def victim(self, alive: list[Machine]) -> Machine:
        """One of those that live; in half of all cases the leader, if there is one."""
        leaders = [
            each
            for each, election in self.elections.items()
            if each in alive and election.token() is not None
        ]
        return self.chance.choice(leaders if leaders and self.chance.random() < 0.5 else alive)

    def alive(self) -> list[Machine]:
        return [one for one in self.world.machines if not one.is_over and not one.dies]

    def check(self) -> None:
        there = [one for one in self.elections if not one.is_over]
        leaders = [one.name for one in there if self.elections[one].token() is not None]
        assert len(leaders) <= 1, f"two leaders: {leaders}"
        working = [
            slot for one in there if self.members[one].works() for slot in self.slots.get(one, ())
        ]
        assert len(working) == len(set(working)), "a slot with two owners"
        for namespace, _, value in self.world.written[self.checked :]:
            if namespace == LEASES:
                self.check_lease(json.loads(value))
            elif namespace == ROUNDS:
                self.check_round(value)
            elif namespace == GROUPS:
                self.check_model(value)
        self.checked = len(self.world.written)

    def check_lease(self, told) -> None:
        token, owner = told["token"], told["owner"]
        assert token >= max(self.tokens, default=0), "a fencing token that shrinks"
        assert owner in ("", self.tokens.setdefault(token, owner)), "a token of two owners"

    def check_round(self, value: bytes) -> None:
        token, number = (int(part or 0) for part in value.split(b"\n"))
        assert token >= self.token_of_round, "a leader that was followed has written"
        assert number == self.round or number == self.round + 1
        assert number > self.round or token > self.token_of_round, "a round committed twice"
        self.token_of_round, self.round = token, number

    def check_model(self, value: bytes) -> None:
        head, _, body = value.partition(b"\n")
        model = GroupModel.decode(body)
        before = self.models.get("group", (0, 0))
        assert (int(head), model.version) >= before
        assert model.version >= before[1], "a version that shrinks"
        self.models["group"] = int(head), model.version
        if model.phase is not BarrierPhase.START:
            assert self.ends.setdefault(model.version, model.phase) is model.phase
        else:
            assert model.version not in self.ends, "a version that began again"
        if model.phase is BarrierPhase.END and model.version:
            assert sorted(model.homes) == list(range(SLOTS))
            assert set(model.homes.values()) <= set(model.members)

    def heal(self) -> None:
        self.mishaps = self.world.trouble = 0.0
        self.world.down_until = 0.0
        for machine in self.world.machines:
            machine.is_cut_off = False
            machine.resumes = min(machine.resumes, self.world.now + 1)

    def check_that_it_goes_on(self) -> None:
        """Without accidents, one process leads soon, and those that live have all slots."""
        self.heal()
        if not set(self.alive()) - self.leaving:
            self.add()
        self.world.run(self.world.now + 60)
        alive = self.alive()
        assert [one for one in alive if self.elections[one].token() is not None]
        model = read_model(self.world.store, "group")
        assert model.phase is BarrierPhase.END
        assert set(model.members) == {one.name for one in alive}
        assert {self.members[one].works() for one in alive} == {model.version}
        assert sum(len(self.slots[one]) for one in alive) == SLOTS
        load = [len(self.slots[one]) for one in alive]
        assert max(load) - min(load) <= 1


def run(seed: int) -> Simulation:
    chance = random.Random(seed)
    simulation = Simulation(chance, chance.choice([0, 0.02, 0.1]), chance.choice([0, 0.001, 0.005]))
    world = simulation.world
    try:
        for _ in range(chance.randint(1, 4)):
            simulation.add()
        for _ in range(8):
            world.run(world.now + chance.uniform(0, 8))
            befall(simulation, chance)
        simulation.check_that_it_goes_on()
    finally:
        world.close()
    return simulation


def befall(simulation: Simulation, chance: random.Random) -> None:
    world, alive = simulation.world, simulation.alive()
    what = chance.randrange(7)
    if what == 0 and len(alive) < 6:
        simulation.add()
    elif what == 1:
        world.down_until = world.now + chance.uniform(0, 10)
    elif alive and what > 1:
        one = simulation.victim(alive)
        if what == 2:
            one.dies = True
            one.resumes = world.now
        elif what == 3:
            one.resumes = world.now + chance.uniform(0, 20)
        elif what == 4:
            one.is_cut_off = not one.is_cut_off
            if chance.random() < 0.5:
                simulation.leaving.add(chance.choice(alive))
                simulation.add()
        elif what == 5:
            simulation.leaving.add(one)
        else:
            for each in world.machines:
                each.is_cut_off = chance.random() < 0.3


@law(100 if settings().max_examples <= 100 else 400)
@given(st.integers(0, 2**32))
def test_whatever_befalls_a_group_one_leads_and_each_slot_has_one_owner(seed):
    run(seed)


@pytest.mark.parametrize("seed", range(10))
def test_a_member_that_is_cut_off_works_alone_on_its_slots_until_it_stops(seed):
    """The others need a new version meanwhile, because one of them leaves."""
    simulation = Simulation(random.Random(seed), 0.0)
    world = simulation.world
    try:
        for _ in range(4):
            simulation.add()
        world.run(15)
        others = [one for one in world.machines if simulation.elections[one].token() is None]
        others[0].is_cut_off = True
        simulation.leaving.add(others[1])
        world.run(25)
        simulation.check_that_it_goes_on()
    finally:
        world.close()


@pytest.mark.parametrize("request_number", range(0, 60, 3))
def test_a_leader_that_dies_at_any_request_is_followed_by_one_that_goes_on(request_number):
    """From its first request on, which is before it leads."""
    simulation = Simulation(random.Random(request_number), 0.0)
    world = simulation.world
    try:
        simulation.add()
        first = world.machines[0]

        def die(machine: Machine) -> None:
            store = simulation.stores.get(first)
            if machine is first and store is not None and store.requests >= request_number:
                machine.dies = True

        world.before_turn = die
        world.run(0.1)
        simulation.add()
        simulation.add()
        world.run(40)
        assert first.is_over
        simulation.check_that_it_goes_on()
    finally:
        world.close()


def test_a_group_that_is_let_alone_asks_little_of_its_store():
    simulation = Simulation(random.Random(1), 0.0)
    world = simulation.world
    try:
        for _ in range(4):
            simulation.add()
        world.run(30)
        before = {one: store.requests for one, store in simulation.stores.items()}
        world.run(90)
        steps = 60 / (SECONDS / 12)
        for one, store in simulation.stores.items():
            asked = store.requests - before[one]
            if simulation.elections[one].token() is None:
                looks = 60 / (LEASE / 6)
                assert asked <= (steps + looks) * 1.1
    finally:
        world.close()
