"""Drivers of a job under accidents: outages, cuts, pauses, deaths at any request, lost answers.

What runs is what a job runs: ``Standby`` decides who tries, claims of checkpoints decide who
writes, and the leader places slots on executors that come and go.
"""

from __future__ import annotations

import itertools
import json
import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkdrain.checkpoints.lease import Lease, claim, newest_claim
from sparkdrain.checkpoints.manifest import Manifest
from sparkdrain.checkpoints.paths import Paths, Place, Stamp, places
from sparkdrain.checkpoints.publish import publish, take_up
from sparkdrain.checkpoints.storage import AlreadyThere, FileMissing
from sparkdrain.coordination.lease import LEASES
from sparkdrain.errors import Cancelled, CheckpointFailed, Fenced
from sparkdrain.hosts.executor import Executor
from sparkdrain.hosts.line import HostId, HostRecord
from sparkdrain.rounds.driver.moves import MoveLog, Newcomers, SlotMoves
from sparkdrain.rounds.driver.placement import Placement
from sparkdrain.standby.drivers import TERMS, Term
from sparkdrain.standby.leadership import Contender, SteppedDown
from sparkdrain.standby.standby import DriverEnd, Standby
from sparkdrain.types import CancelToken
from tests.support.law import law
from tests.support.simulated import Machine, Troubled, World

SLOTS = 5
LEASE = 6.0
PATHS = Paths("bucket", "job")
NO_STORAGE = "The storage does not answer"
OF_DRIVERS = (
    "a driver dies",
    "a driver is paused",
    "a driver is cut off from the store, or not any more",
    "a driver is told to stop",
    "some drivers are cut off from the store, others not any more",
    "some drivers are cut off from all, others not any more",
)
ACCIDENTS = (
    "a driver joins",
    "the store is away",
    "an executor joins",
    "an executor joins",
    "an executor leaves",
    *OF_DRIVERS,
)


def published(files: dict[str, bytes]) -> list[Place]:
    """The places of all manifests, the newest first."""
    folder = f"{PATHS.manifests}/"
    return places(path.removeprefix(folder) for path in files if path.startswith(folder))


class Disk:
    """One machine's way to the storage that all share; see ``checkpoints.storage.Storage``."""

    def __init__(self, machine: Machine, files: dict[str, bytes]) -> None:
        self._machine = machine
        self._files = files

    def list(self, folder):
        return self._ask(
            lambda: {
                path.removeprefix(f"{folder}/"): len(data)
                for path, data in self._files.items()
                if path.startswith(f"{folder}/")
            }
        )

    def chunks(self, path):
        data = self._ask(lambda: self._files.get(path))
        if data is None:
            raise FileMissing(path)
        yield data

    def write(self, path, chunks):
        self._ask(lambda: self._files.__setitem__(path, b"".join(chunks)))

    def settle(self, path):
        if not self._ask(lambda: path in self._files):
            raise FileMissing(path)

    def publish(self, path, data):
        def publish() -> None:
            folder = path.rpartition("/")[0]
            there = {name for name in self._files if name.startswith(f"{folder}/")}
            if there - {path} or self._files.get(path, data) != data:
                raise AlreadyThere(path)
            self._files[path] = data
            stamps = [place.stamp for place in reversed(published(self._files))]
            epochs = [stamp.epoch for stamp in stamps]
            assert epochs == sorted(epochs), "a leader that was followed has written"
            assert [stamp.number for stamp in stamps] == [*range(1, len(stamps) + 1)]

        self._ask(publish)

    def _ask(self, request):
        machine, world = self._machine, self._machine.world
        machine.give_way()
        if machine.is_stranded:
            machine.sleep(world.chance.uniform(0, 2))
            raise CheckpointFailed(NO_STORAGE)
        accident = world.chance.random() < world.trouble
        what = world.chance.randrange(3) if accident else None
        if what == 0:
            raise CheckpointFailed(NO_STORAGE)
        if what == 1:
            machine.sleep(world.chance.expovariate(1 / 4))
        answer = request()
        if what == 2:
            machine.sleep(world.chance.expovariate(1 / 4))
            raise CheckpointFailed(NO_STORAGE)
        machine.give_way()
        return answer


class Pauses(CancelToken):
    """A token whose waits are those of a machine."""

    def __init__(self, machine: Machine) -> None:
        super().__init__()
        self._machine = machine

    def wait(self, seconds=None) -> bool:
        self._machine.sleep(seconds)
        return self.is_cancelled()


class Ready(Contender):
    """A driver that could take the job up at any time."""

    number = 0

    def __init__(self, disk: Disk) -> None:
        self._disk = disk

    def check(self) -> None:
        pass

    def shares(self, epoch: int) -> bool:
        try:
            return newest_claim(self._disk, PATHS) >= epoch
        except CheckpointFailed:
            return True  # the storage is away, and not another one


class Life:
    """A leader at work, from its claim on: rounds, and slots on the executors that there are."""

    def __init__(self, simulation: Simulation, machine: Machine, lease: Lease, number: int) -> None:
        self.simulation = simulation
        self.machine = machine
        self.lease = lease
        self.number = number
        self.placement = Placement(SLOTS)
        self.hosts: dict[int, Executor] = {}
        self.fresh: dict[int, frozenset[int]] = {number + 1: frozenset(range(SLOTS))}
        self.among = list(simulation.executors)
        self.placement.begin(self.among)
        self.moves = SlotMoves(
            self.placement,
            Newcomers(self.placement, lambda: simulation.executors, machine.clock),
            lambda: simulation.executors,
            self.reopen,
            None,
            MoveLog(lambda text: None),
            lambda text: None,
        )

    def reopen(self, slots: frozenset[int], number: int) -> None:
        for slot in slots:
            del self.hosts[slot]
        self.fresh = {number: slots}

    def round(self) -> bool:
        """Run one, and publish it; whether all slots still have their processes."""
        number = self.number + 1
        alive = self.simulation.executors
        if (
            self.moves.are_wanted()
            and self.moves.are_ready(self.number)
            and self.moves.begin(number)
        ):
            self.simulation.moves += 1
            self.among = list(alive)
        records = [
            HostRecord(HostId("job", slot), "machine", 1, ("", 1), executor=home)
            for slot, home in self.hosts.items()
        ]
        places = dict(enumerate(self.placement.places(records)))
        by_place = {one.place: one for one in alive}
        for slot in self.fresh.get(number, ()):
            assert slot not in self.hosts, "a slot with two homes"
            if places.get(slot) in by_place:
                self.hosts[slot] = by_place[places[slot]]
        if set(self.hosts) != set(range(SLOTS)) or not set(self.hosts.values()) <= set(alive):
            return False
        load = Counter(dict.fromkeys(self.among, 0))
        load.update(self.hosts.values())
        assert max(load.values()) - min(load.values()) <= 1
        manifest = Manifest("job", "run", self.lease.epoch, number, number, 0, {}, SLOTS)
        publish(self.lease, manifest)
        self.number = number
        self.simulation.published(self.lease.epoch, number)
        return True


class Simulation:
    """Drivers that are a world's machines, and what must always hold of them."""

    def __init__(self, chance: random.Random, trouble: float, mishaps: float = 0.0) -> None:
        self.world = World(chance, trouble, self.check)
        self.chance = chance
        self.mishaps = mishaps
        self.names = map(str, itertools.count())
        self.files: dict[str, bytes] = {}
        self.executor_ids = itertools.count()
        self.executors: list[Executor] = []
        for _ in range(2):
            self.add_executor()
        self.standbys: dict[Machine, Standby] = {}
        self.stores: dict[Machine, Troubled] = {}
        self.leaving: set[Machine] = set()
        self.checked = 0
        self.tokens: dict[int, str] = {}
        self.newest_term = 0
        self.lives: set[int] = set()
        self.rounds: list[tuple[int, int]] = []
        self.moves = 0
        self.befallen: Counter[str] = Counter()
        self.world.before_turn = self.mishap

    def add(self) -> None:
        self.world.add(next(self.names), self.process)

    def add_executor(self) -> None:
        self.executors.append(Executor(self.chance.choice("abc"), str(next(self.executor_ids))))

    def process(self, machine: Machine) -> None:
        store = self.stores[machine] = Troubled(machine)
        standby = self.standbys[machine] = Standby(
            store,
            "job",
            machine.name,
            LEASE,
            10_000,
            lambda text: None,
            lambda text: None,
            clock=machine.clock,
            now=lambda: int(1e6 * machine.clock()),
        )
        disk, stopped = Disk(machine, self.files), Pauses(machine)
        contender = Ready(disk)
        while True:
            try:
                self.stop_if_told(machine, stopped)
                standby.wait(contender, stopped)
                self.lead(machine, standby, disk, stopped)
            except (Fenced, SteppedDown) as error:
                if not standby.goes_back(error):
                    raise
            except CheckpointFailed:
                pass
            except Cancelled:
                break
        standby.close(DriverEnd("STOPPED"))

    def lead(self, machine: Machine, standby: Standby, disk: Disk, stopped: Pauses) -> None:
        """One life after the other, until another driver leads."""
        due = machine.clock()
        while True:
            standby.check()
            lease = claim(disk, PATHS, f"{machine.name}x{len(self.files)}", "")
            assert lease.epoch not in self.lives, "two lives go on under one epoch"
            self.lives.add(lease.epoch)
            found = take_up(lease)
            standby.took(lease.epoch)
            life = Life(self, machine, lease, 0 if found is None else found.number)
            with standby.lead(stopped) as led:
                is_whole = True
                while is_whole:
                    if machine.clock() >= due:
                        due = machine.clock() + standby._renew()
                    if led.is_cancelled():
                        raise Cancelled
                    is_whole = life.round()
                    machine.sleep(self.chance.uniform(0.2, 2))
                    self.stop_if_told(machine, stopped)

    def stop_if_told(self, machine: Machine, stopped: CancelToken) -> None:
        if machine in self.leaving:
            stopped.cancel()

    def leads(self, machine: Machine) -> bool:
        standby = self.standbys.get(machine)
        return standby is not None and standby._lease.token() is not None

    def mishap(self, machine: Machine) -> None:
        """A process dies, leaders more often than others."""
        if self.chance.random() < self.mishaps * (4 if self.leads(machine) else 1):
            machine.dies = True

    def alive(self) -> list[Machine]:
        return [one for one in self.world.machines if not one.is_over and not one.dies]

    def victim(self, alive: list[Machine]) -> Machine:
        """One of those that live; in half of all cases the leader, if there is one."""
        leaders = [each for each in alive if self.leads(each)]
        return self.chance.choice(leaders if leaders and self.chance.random() < 0.5 else alive)

    def published(self, epoch: int, number: int) -> None:
        """A driver was told that its round counts; late, perhaps, when another has gone on."""
        assert Stamp(epoch, number) in {place.stamp for place in published(self.files)}
        assert (epoch, number) not in self.rounds, "a round that counts twice"
        self.rounds.append((epoch, number))

    def check(self) -> None:
        leaders = [one.name for one in self.world.machines if not one.is_over and self.leads(one)]
        assert len(leaders) <= 1, f"two leaders: {leaders}"
        for namespace, _, value in self.world.written[self.checked :]:
            if namespace == LEASES:
                self.check_lease(json.loads(value))
            elif namespace == TERMS:
                head, _, body = value.partition(b"\n")
                assert int(head) >= self.newest_term, "a leader that was followed has told"
                assert not body or Term.decode(body) is not None
                self.newest_term = int(head)
        self.checked = len(self.world.written)

    def check_lease(self, told) -> None:
        token, owner = told["token"], told["owner"]
        assert token >= max(self.tokens, default=0), "a fencing token that shrinks"
        assert owner in ("", self.tokens.setdefault(token, owner)), "a token of two owners"

    def heal(self) -> None:
        self.mishaps = self.world.trouble = 0.0
        self.world.down_until = 0.0
        for machine in self.world.machines:
            machine.is_cut_off = machine.is_stranded = False
            machine.resumes = min(machine.resumes, self.world.now + 1)

    def check_that_it_goes_on(self) -> None:
        """Without accidents, one driver leads soon, and makes rounds."""
        self.heal()
        if not self.executors:
            self.add_executor()
        if not set(self.alive()) - self.leaving:
            self.add()
        self.world.run(self.world.now + 30)
        before = len(self.rounds)
        self.world.run(self.world.now + 30)
        assert sum(map(self.leads, self.alive())) == 1
        assert len(self.rounds) >= before + 10
        assert len({epoch for epoch, _ in self.rounds[before:]}) == 1


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
    what = chance.choice(ACCIDENTS)
    if what == "a driver joins" and len(alive) < 6:
        simulation.add()
    elif what == "the store is away":
        world.down_until = world.now + chance.uniform(0, 10)
    elif what == "an executor joins" and len(simulation.executors) < 5:
        simulation.add_executor()
    elif what == "an executor leaves" and simulation.executors:
        simulation.executors.remove(chance.choice(simulation.executors))
    elif what in OF_DRIVERS and alive:
        befall_driver(simulation, simulation.victim(alive), what)
    else:
        return
    simulation.befallen[what] += 1


def befall_driver(simulation: Simulation, one: Machine, what: str) -> None:
    world, chance = simulation.world, simulation.chance
    match what:
        case "a driver dies":
            one.dies = True
            one.resumes = world.now
        case "a driver is paused":
            one.resumes = world.now + chance.uniform(0, 20)
        case "a driver is cut off from the store, or not any more":
            one.is_cut_off = not one.is_cut_off
        case "a driver is told to stop":
            simulation.leaving.add(one)
        case "some drivers are cut off from the store, others not any more":
            for each in world.machines:
                each.is_cut_off = chance.random() < 0.3
        case "some drivers are cut off from all, others not any more":
            for each in world.machines:
                each.is_cut_off = each.is_stranded = chance.random() < 0.3


@pytest.fixture(autouse=True, scope="module")
def _steps_of_leaders_are_taken_by_the_simulation():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sparkdrain.coordination.pulse.Pulse.start", lambda self: None)
        yield


@law(10)
@given(st.integers(0, 2**32))
def test_whatever_befalls_drivers_one_leads_and_each_round_counts_once(seed):
    run(seed)


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("first", range(0, 10_000, 500))
def test_in_ten_thousand_schedules_one_leads_and_each_round_counts_once(first):
    befallen: Counter[str] = Counter()
    moves = leaders = 0
    for seed in range(first, first + 500):
        simulation = run(seed)
        befallen += simulation.befallen
        moves += simulation.moves
        leaders += len(simulation.tokens)
    print(f"{leaders} leaders, slots moved {moves} times, {dict(befallen)}")
    assert set(befallen) == set(ACCIDENTS)
    assert min(befallen.values()) > 100
    assert moves > 30
    assert leaders > 1000


def leader_dies(seed: int, step: int) -> bool:
    """The first leader dies at a step, from its first one on, which is before it leads.

    Each request to the store or to the storage has two steps, before it and after it. Executors
    come and go, so slots move. Returns whether the leader has made so many steps.
    """
    simulation = Simulation(random.Random(seed), 0.0)
    world = simulation.world
    try:
        simulation.add()
        first = world.machines[0]
        steps = 0

        def die(machine: Machine) -> None:
            nonlocal steps
            if machine is first:
                first.dies = steps >= step
                steps += 1

        world.before_turn = die
        world.run(0.1)
        simulation.add()
        simulation.add()
        simulation.add_executor()
        world.run(20)
        simulation.executors.pop(0)
        world.run(40)
        is_dead = first.is_over
        world.before_turn = lambda machine: None
        simulation.check_that_it_goes_on()
        return is_dead
    finally:
        world.close()


@pytest.mark.parametrize("step", range(0, 50, 10))
def test_a_leader_that_dies_at_any_step_is_followed_by_one_that_goes_on(step):
    assert leader_dies(step, step)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_a_leader_that_dies_at_each_of_its_steps_is_followed_by_one_that_goes_on(seed):
    step = 0
    while leader_dies(seed, step):
        step += 1
    assert step > 100
