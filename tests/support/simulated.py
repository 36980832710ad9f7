"""Processes that share a store and take turns in a drawn order, under a clock that is made.

Each process runs the code of the product in a thread of its own. One thread runs at a time: it
gives way before and after every request to the store. So other processes act between any two
requests, and the same seed gives the same run.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from sparkdrain.coordination.backends.memory import MemoryMetadataStore
from sparkdrain.coordination.metadata import ANY, StoreDown

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

_CUT_OFF = "The store is cut off"
_NOT_DONE = "The store is down, and has done nothing"
_DONE_LATER = "The store does not answer, and does it later"
_DONE = "The store does not answer, and has done it"


class Killed(BaseException):
    """Ends the thread of a process that has died, at any request."""


def _closed() -> threading.Lock:
    lock = threading.Lock()
    lock.acquire()
    return lock


class Machine:
    """One process: its clock, its way to the store, and whether it lives.

    Attributes:
        now: seconds of its own clock.
        rate: seconds of this clock in one second of the world.
        resumes: when it goes on, in seconds of the world.
        is_cut_off: whether it does not reach the store.
        is_stranded: whether it does not reach anything else that all share.
    """

    def __init__(self, world: World, name: str, body: Callable[[Machine], None]) -> None:
        self.world = world
        self.name = name
        self.now = world.chance.uniform(0, 1e6)
        self.rate = world.chance.uniform(0.97, 1.03)
        self.resumes = world.now
        self.is_cut_off = False
        self.is_stranded = False
        self.is_over = False
        self.dies = False
        self.error: BaseException | None = None
        self._body = body
        self._mine = _closed()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def clock(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        """Let others go on for so many seconds of this machine's clock."""
        self.resumes = self.world.now + seconds / self.rate
        self.give_way()

    def give_way(self) -> None:
        """Let others act; they may kill this process."""
        self.world.turn.release()
        self._mine.acquire()
        if self.dies:
            raise Killed

    def go_on(self) -> None:
        """Run until it gives way again; called by the world."""
        self._mine.release()
        self.world.turn.acquire()

    def _run(self) -> None:
        self._mine.acquire()
        try:
            if not self.dies:
                self._body(self)
        except Killed:
            pass
        except BaseException as error:  # noqa: BLE001
            self.error = error
        self.is_over = True
        self.world.turn.release()


class World:
    """All processes, one store, and what befalls them.

    Args:
        chance: draws everything.
        trouble: how probable it is that a request meets an accident.
        check: looks at invariants after every turn.
    """

    def __init__(
        self, chance: random.Random, trouble: float, check: Callable[[], None] = lambda: None
    ) -> None:
        self.chance = chance
        self.trouble = trouble
        self.check = check
        self.now = 0.0
        self.store = MemoryMetadataStore()
        self.turn = _closed()
        self.machines: list[Machine] = []
        self.late: list[tuple[float, Callable[[], object]]] = []
        self.down_until = 0.0
        self.written: list[tuple[str, str, bytes]] = []
        self.before_turn: Callable[[Machine], None] = lambda machine: None

    def add(self, name: str, body: Callable[[Machine], None]) -> Machine:
        machine = Machine(self, name, body)
        self.machines.append(machine)
        return machine

    def advance(self, seconds: float) -> None:
        self.now += seconds
        for machine in self.machines:
            machine.now += seconds * machine.rate
        due = [do for when, do in self.late if when <= self.now]
        self.late = [each for each in self.late if each[0] > self.now]
        for do in due:
            do()
        self.check()

    def run(self, until: float) -> None:
        """Give machines turns until the world has become so old."""
        while self.now < until:
            alive = [machine for machine in self.machines if not machine.is_over]
            ready = [machine for machine in alive if machine.resumes <= self.now]
            if not ready:
                times = [machine.resumes for machine in alive] + [when for when, _ in self.late]
                self.advance(max(0.0, min([*times, until]) - self.now))
                continue
            machine = self.chance.choice(ready)
            self.before_turn(machine)
            machine.go_on()
            if machine.error is not None:
                raise machine.error
            self.check()

    def close(self) -> None:
        for machine in self.machines:
            if not machine.is_over:
                machine.dies = True
                machine.go_on()


class Troubled(MemoryMetadataStore):
    """One machine's way to the store of the world, with accidents between the two."""

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine.world.store._records)
        self._machine = machine
        self.requests = 0

    def get(self, namespace, key):
        return self._ask(lambda: MemoryMetadataStore.get(self, namespace, key))

    def put(self, namespace, key, value, version=ANY):
        def put() -> str | None:
            written = MemoryMetadataStore.put(self, namespace, key, value, version)
            if written is not None:
                self._machine.world.written.append((namespace, key, value))
            return written

        return self._ask(put, changes=True)

    def remove(self, namespace, key, version=ANY):
        return self._ask(
            lambda: MemoryMetadataStore.remove(self, namespace, key, version), changes=True
        )

    def all(self, namespace, on_corrupt=None, without=frozenset(), prefix=""):
        return self._ask(
            lambda: MemoryMetadataStore.all(self, namespace, on_corrupt, without, prefix)
        )

    def close(self):
        """What comes late comes after the handle was closed, too."""

    def _ask(self, request, *, changes=False):
        machine, world = self._machine, self._machine.world
        self.requests += 1
        chance = world.chance
        machine.give_way()
        if world.now < world.down_until or machine.is_cut_off:
            machine.sleep(chance.uniform(0, 2))
            raise StoreDown(_CUT_OFF)
        accident = chance.random() < world.trouble
        what = chance.randrange(5) if accident else None
        if what == 0:
            raise StoreDown(_NOT_DONE)
        if what == 1 and changes:
            world.late.append((world.now + chance.uniform(0, 8), request))
            raise StoreDown(_DONE_LATER)
        if what == 2:
            machine.sleep(chance.expovariate(1 / 4))
        answer = request()
        if what == 3:
            raise StoreDown(_DONE)
        if what == 4:
            machine.sleep(chance.expovariate(1 / 4))
        machine.give_way()
        return answer
