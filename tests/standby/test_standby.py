"""Drivers of one job in one process, with clocks that tests move; no Spark."""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass, field
from functools import partial

import pytest

from sparkdrain.coordination.backends.memory import MemoryMetadataStore, SharedSpaces
from sparkdrain.coordination.lease import LEASES
from sparkdrain.coordination.metadata import Handle, StoreDown
from sparkdrain.errors import Cancelled, CheckpointRefused, Fenced
from sparkdrain.standby import drivers
from sparkdrain.standby.leadership import EndedElsewhere, SteppedDown
from sparkdrain.standby.standby import DriverEnd, Standby
from sparkdrain.types import CancelToken

SECONDS = 6.0
SET = "job-1"


@dataclass
class Machine:
    """A machine with a driver: its clock, and its way to the store."""

    clock: float = 0.0
    is_cut_off: bool = False


class HandleOf(Handle):
    """The handle of a machine that may be cut off from its store."""

    def __init__(self, machine: Machine) -> None:
        super().__init__("The metadata store")
        self._machine = machine

    def check(self, namespace, key=None) -> None:
        if self._machine.is_cut_off:
            message = "cut off"
            raise StoreDown(message)
        super().check(namespace, key)


class Reached(MemoryMetadataStore):
    """A store that a machine may be cut off from."""

    def __init__(self, spaces: SharedSpaces, machine: Machine) -> None:
        super().__init__(spaces)
        self._machine = machine
        self._handle = HandleOf(machine)


@dataclass
class Told:
    told_: list[str] = field(default_factory=list)
    warned_: list[str] = field(default_factory=list)

    def told(self, text: str) -> None:
        self.told_.append(text)

    def warned(self, text: str) -> None:
        self.warned_.append(text)


@dataclass
class Ready:
    """A contender; ``looks`` is how often it was asked, ``expected`` what it was told each time."""

    number: int = 0
    epoch: int = 1000
    looks: int = 0
    refuse: Exception | None = None
    expected: list[bool] = field(default_factory=list)

    def check(self) -> None:
        self.looks += 1
        if self.refuse is not None:
            raise self.refuse

    def shares(self, epoch: int) -> bool:
        return self.epoch >= epoch

    def expect(self, *, is_next: bool) -> None:
        self.expected.append(is_next)


class Waits(CancelToken):
    """Does something at each wait of a driver, and cancels it if it waits for too long.

    Args:
        machines: whose clocks go on while it waits.
        then: what happens, by the number of the wait.
    """

    def __init__(self, *machines: Machine, **then) -> None:
        super().__init__()
        self.machines = machines
        self.then = {int(name[1:]): action for name, action in then.items()}
        self.count = 0

    def wait(self, seconds=None) -> bool:
        for machine in self.machines:
            machine.clock += seconds
        self.then.get(self.count, lambda: None)()
        self.count += 1
        if self.count > 100:
            self.cancel()
        return self.is_cancelled()


class Drivers:
    """As many as a test wants, of one job."""

    def __init__(self) -> None:
        self.spaces = SharedSpaces()
        self.made: list[Standby] = []

    def make(
        self, owner: str, machine: Machine, recoveries: int = 3, store: type[Reached] = Reached
    ) -> tuple[Standby, Told]:
        told = Told()
        standby = Standby(
            store(self.spaces, machine),
            SET,
            owner,
            SECONDS,
            recoveries,
            told.told,
            told.warned,
            clock=lambda: machine.clock,
            now=lambda: int(1e6 * machine.clock),
        )
        self.made.append(standby)
        return standby, told

    def end(self) -> None:
        for each in self.made:
            if each._pulse is not None:
                each._pulse.close()


@pytest.fixture
def standing(monkeypatch):
    # Steps of leaders are taken by tests.
    monkeypatch.setattr("sparkdrain.coordination.pulse.Pulse.start", lambda self: None)
    made = Drivers()
    yield made
    made.end()


def led(standing, owner="a", machine=None):
    """A driver that leads."""
    machine = machine or Machine()
    standby, told = standing.make(owner, machine)
    standby.wait(Ready(), Waits(machine))
    standby.took(1)
    return standby, told, machine


def test_the_first_driver_leads_at_once(standing):
    standby, told, _ = led(standing)
    assert standby.leads
    assert told.told_ == ["a leads the job from now on."]


def test_a_second_driver_waits_while_the_first_is_heard_of(standing):
    first, _, machine = led(standing)
    other = Machine()
    second, told = standing.make("b", other)
    waits = Waits(machine, other)
    waits.then = dict.fromkeys(range(60), first._renew)
    waits.then[60] = waits.cancel
    with pytest.raises(Cancelled):
        second.wait(Ready(), waits)
    assert not second.leads
    assert told.told_ == [
        "b waits: a leads the job. It is taken over 6 s after a was heard of last."
    ]


def test_a_leader_that_is_not_heard_of_is_followed_in_the_time_of_a_lease_and_two_looks(standing):
    led(standing)
    other = Machine()
    second, told = standing.make("b", other)
    second.wait(Ready(), Waits(other))
    assert SECONDS <= other.clock <= SECONDS + 2 * SECONDS / 6
    assert told.warned_ == ["b leads the job from now on: a was not heard of for 6.0 s."]


def test_who_waits_gets_ready_when_the_leader_is_silent_for_half_of_a_lease(standing):
    led(standing)
    other, ready = Machine(), Ready()
    second, _ = standing.make("b", other)
    second.wait(ready, Waits(other))
    # It looks each second, and first sees the lease at 0.
    assert ready.expected == [False] * 4 + [True] * 2


def test_who_waits_is_not_ready_any_more_when_the_leader_is_heard_of_again(standing):
    first, _, machine = led(standing)
    other, ready = Machine(), Ready()
    second, _ = standing.make("b", other)
    waits = Waits(machine, other, n4=first._renew, n6=first._renew)
    waits.then[8] = waits.cancel
    with pytest.raises(Cancelled):
        second.wait(ready, waits)
    assert ready.expected == [False] * 4 + [True] + [False] * 4


@pytest.mark.parametrize("until", [3, 30])
def test_nobody_gets_ready_because_the_store_is_away_or_was(standing, until):
    first, _, machine = led(standing)
    other, ready = Machine(), Ready()
    second, _ = standing.make("b", other)
    waits = Waits(machine, other)

    def cut_off(*, yes: bool) -> None:
        machine.is_cut_off = other.is_cut_off = yes

    waits.then = {
        1: lambda: cut_off(yes=True),
        until: lambda: cut_off(yes=False),
        until + 2: first._renew,
        until + 4: first._renew,
        until + 5: waits.cancel,
    }
    with pytest.raises(Cancelled):
        second.wait(ready, waits)
    assert not any(ready.expected)


def test_a_leader_that_was_stopped_is_followed_at_the_next_look(standing):
    first, _, _ = led(standing)
    other = Machine()
    second, told = standing.make("b", other)
    stop = Waits(other, n0=lambda: first.close(DriverEnd("STOPPED")))
    second.wait(Ready(), stop)
    assert other.clock <= SECONDS / 6
    assert told.told_[-1] == "b leads the job from now on: a was stopped."


@pytest.mark.parametrize("state", ["DONE", "DRAINED", "CANCELLED"])
def test_who_waits_ends_as_the_leader_does(standing, state):
    first, _, _ = led(standing)
    other = Machine()
    second, _ = standing.make("b", other)
    with pytest.raises(EndedElsewhere, match=f"ended as {state} under a") as caught:
        second.wait(Ready(), Waits(other, n0=lambda: first.close(DriverEnd(state))))
    assert caught.value.state == state
    assert not second.leads


def test_a_leader_that_dies_when_it_has_told_the_end_is_not_followed(standing):
    first, _, _ = led(standing)
    first._term = first._ended(DriverEnd("DRAINED"))
    assert first._write()
    other = Machine()
    second, _ = standing.make("b", other)
    second._before = b""  # it waited already
    with pytest.raises(EndedElsewhere):
        second.wait(Ready(), Waits(other))


def test_a_driver_that_comes_after_the_end_does_not_end_for_it(standing):
    first, _, _ = led(standing)
    first.close(DriverEnd("CANCELLED"))
    second, _ = standing.make("b", Machine())
    second.wait(Ready(), Waits())
    assert second.leads


def test_a_failure_is_tried_again_elsewhere_as_often_as_the_job_may_recover(standing):
    machines = [Machine() for _ in range(4)]
    fail = DriverEnd("FAILED", "ValueError: no")
    leader, _ = standing.make("0", machines[0], recoveries=2)
    leader.wait(Ready(number=7), Waits())
    for number in (1, 2):
        following, told = standing.make(str(number), machines[number], recoveries=2)
        waits = Waits(machines[number], n0=lambda leader=leader: leader.close(fail))
        following.wait(Ready(number=7), waits)
        assert "has failed. ValueError: no" in told.warned_[-1]
        leader = following
    last, _ = standing.make("3", machines[3], recoveries=2)
    with pytest.raises(EndedElsewhere, match="ValueError: no") as caught:
        last.wait(Ready(), Waits(machines[3], n0=lambda: leader.close(fail)))
    assert caught.value.state == "FAILED"


def test_a_new_checkpoint_makes_a_failure_the_first_in_a_row(standing):
    leader, _ = standing.make("0", Machine(), recoveries=1)
    leader.wait(Ready(number=1), Waits())
    for number in range(2, 8):
        machine, failing = Machine(), leader
        leader, _ = standing.make(str(number), machine, recoveries=1)
        fails = partial(failing.close, DriverEnd("FAILED", "no"))
        leader.wait(Ready(number=number), Waits(machine, _0=fails))
    assert leader.leads


def test_a_leader_that_was_paused_steps_down_and_ends_its_life(standing):
    first, told, machine = led(standing)
    other = Machine()
    second, _ = standing.make("b", other)
    second.wait(Ready(), Waits(other))
    outer = CancelToken()
    with pytest.raises(SteppedDown, match="b leads the job"), first.lead(outer) as life:
        machine.clock += 100
        first._renew()
        first._renew()
        assert life.is_cancelled()
        message = "the rounds"
        raise Cancelled(message)
    assert not first.leads
    assert "stops working on the job" in told.warned_[-1]
    assert first.goes_back(SteppedDown("b"))
    assert not outer.is_cancelled()


def test_a_paused_leader_does_not_claim_checkpoints(standing):
    first, _, machine = led(standing)
    machine.clock += SECONDS
    with pytest.raises(SteppedDown):
        first.check()


def test_a_paused_leader_cannot_tell_anything_any_more(standing):
    first, _, _ = led(standing)
    other = Machine()
    second, _ = standing.make("b", other)
    second.wait(Ready(), Waits(other))
    second.took(2)
    first.took(9)
    first.close(DriverEnd("DONE"))
    assert second._record.read().value == second._term.encode()
    assert second._term.epoch == 2


def test_a_leader_goes_on_through_an_outage_and_is_not_followed_after_it(standing):
    first, told, machine = led(standing)
    other = Machine()
    second, second_told = standing.make("b", other)

    def cut_off(yes: bool) -> None:
        machine.is_cut_off = other.is_cut_off = yes

    waits = Waits(machine, other)
    waits.then = dict.fromkeys(range(100), first._renew)
    waits.then[5] = lambda: cut_off(yes=True)
    waits.then[65] = lambda: cut_off(yes=False)
    with first.lead(CancelToken()) as life, pytest.raises(Cancelled):
        second.wait(Ready(), waits)
    assert first.leads
    assert not life.is_cancelled()
    assert "The job goes on" in told.warned_[0]
    assert "can be used again" in told.told_[-1]
    assert "waits until the store can be used" in second_told.warned_[0]


def test_who_waits_does_not_take_over_in_the_moment_in_which_an_outage_ends(standing):
    first, _, machine = led(standing)
    other = Machine()
    second, _ = standing.make("b", other)
    waits = Waits(other)

    def cut_off(*, yes: bool) -> None:
        machine.is_cut_off = other.is_cut_off = yes

    # The leader is slow: it is heard two looks after the store is there again.
    waits.then = {
        1: lambda: cut_off(yes=True),
        30: lambda: cut_off(yes=False),
        32: first._renew,
        34: first._renew,
        36: waits.cancel,
    }
    with pytest.raises(Cancelled):
        second.wait(Ready(), waits)
    assert not second.leads


def test_who_is_cut_off_alone_is_followed_and_steps_down_when_it_is_back(standing):
    first, _, machine = led(standing)
    machine.is_cut_off = True
    first._renew()
    other = Machine()
    second, _ = standing.make("b", other)
    second.wait(Ready(), Waits(machine, other))
    assert first.leads  # it cannot know; the claim of the checkpoints keeps it from writing
    assert first.goes_back(Fenced("a later claim"))
    machine.is_cut_off = False
    with pytest.raises(Cancelled):
        waits = Waits(machine, other)
        waits.then = dict.fromkeys(range(100), second._renew)
        first.wait(Ready(), waits)
    assert not first.leads


def test_a_lease_that_nobody_took_is_taken_again_and_the_job_goes_on(standing):
    first, _, machine = led(standing)
    machine.clock += 50
    with first.lead(CancelToken()) as life:
        first._renew()
        first._renew()
        assert not life.is_cancelled()
    first.check()
    assert first.leads


def test_a_driver_that_led_in_between_is_noticed_although_it_is_gone(standing):
    first, _, machine = led(standing)
    other = Machine()
    second, _ = standing.make("b", other)
    second.wait(Ready(), Waits(other))
    second.close(DriverEnd("STOPPED"))
    machine.clock += 50
    with pytest.raises(SteppedDown), first.lead(CancelToken()) as life:
        first._renew()
        first._renew()
        assert life.is_cancelled()
        raise Cancelled


def test_a_claim_by_a_paused_driver_is_answered_by_another_claim_but_not_for_ever(standing):
    first, _, machine = led(standing)
    for _ in range(3):
        assert first.goes_back(Fenced("claimed"))
        first.wait(Ready(), Waits(machine))
        assert first.leads
    assert not first.goes_back(Fenced("claimed"))


def test_checkpoints_that_are_not_those_of_the_leader_are_refused(standing):
    led(standing)
    second, _ = standing.make("b", Machine())
    with pytest.raises(CheckpointRefused, match="has to be the same folder for all drivers"):
        second.wait(Ready(epoch=0), Waits())


def test_a_driver_whose_session_ends_while_it_waits_ends(standing):
    led(standing)
    other = Machine()
    second, _ = standing.make("b", other)
    ready = Ready()
    end = Waits(other, n2=lambda: setattr(ready, "refuse", RuntimeError("no session")))
    with pytest.raises(RuntimeError, match="no session"):
        second.wait(ready, end)
    assert not second.leads


def test_two_that_start_at_once_do_not_both_lead(standing):
    machines = [Machine(), Machine()]
    made = [standing.make(f"d{number}", machines[number])[0] for number in range(2)]
    stop = CancelToken()

    class Pauses(CancelToken):
        def wait(self, seconds=None):
            stop.wait(0.01)
            if stop.is_cancelled():
                self.cancel()
            return self.is_cancelled()

    def contend(one: Standby) -> None:
        try:
            one.wait(Ready(), Pauses())
        except Cancelled:
            return
        stop.wait(0.3)
        stop.cancel()

    threads = [threading.Thread(target=contend, args=(one,)) for one in made]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(one.leads for one in made) == [False, True]


def test_the_store_tells_who_leads_and_who_waits(standing):
    first, _, machine = led(standing)
    other = Machine(clock=2.0)
    second, _ = standing.make("b", other)
    waits = Waits(other)
    waits.then = {0: waits.cancel}
    with pytest.raises(Cancelled):
        second.wait(Ready(), waits)
    store = MemoryMetadataStore(standing.spaces)
    first._beat()
    told = drivers.told(store, SET, int(1e6 * machine.clock) + 3_000_000).splitlines()
    assert told[0] == "a leads, heard 3 s ago"
    assert told[1].startswith("b waits")
    second.close(DriverEnd("STOPPED"))
    assert drivers.told(store, SET, 0) == "a leads, heard 0 s ago"


def test_who_leaves_knows_whether_others_go_on(standing):
    first, _, _ = led(standing)
    stopped = DriverEnd("STOPPED")
    assert not first.others_go_on(stopped)
    second, _ = standing.make("b", Machine())
    second._beat()
    assert first.others_go_on(stopped)
    assert not first.others_go_on(DriverEnd("DONE"))
    assert first.others_go_on(DriverEnd("FAILED", "no"))
    assert not first.others_go_on(DriverEnd("FAILED", "no", is_last=True))


def test_counters_tell_of_leading(standing):
    first, _, machine = led(standing)
    assert first.metrics() == {
        "leads": 1,
        "terms": 1,
        "stepped_down": 0,
        "store_outages": 0,
        "heartbeats": 1,
        "heartbeats_failed": 0,
    }
    other = Machine()
    second, _ = standing.make("b", other)
    second.wait(Ready(), Waits(other))
    machine.clock += 50
    first._renew()
    first._renew()
    assert first.metrics()["leads"] == 0
    assert first.metrics()["stepped_down"] == 1


def test_records_of_drivers_that_are_gone_for_a_day_are_removed_unless_they_are_back(standing):
    store, day = MemoryMetadataStore(standing.spaces), 86_400 * 10**6
    for owner, heard in (("dead", 0), ("late", 2 * day - 10)):
        drivers.tell(store, SET, drivers.StandingDriver(owner, 0, heard))
    drivers.tell(store, "job-2", drivers.StandingDriver("other", 0, 0))
    found = store.all(drivers.DRIVERS, print)
    assert len(found) == 3
    drivers.forget_dead(store, SET, 2 * day)
    assert [one.owner for one in drivers.known(store, SET)] == ["late"]
    assert [one.owner for one in drivers.known(store, "job-2")] == ["other"]


class Counting(Reached):
    """Counts requests, and may refuse to be told anything."""

    refuses = False

    def __init__(self, *arguments) -> None:
        super().__init__(*arguments)
        self.asked: Counter[str] = Counter()

    def get(self, *arguments):
        self.asked["get"] += 1
        return super().get(*arguments)

    def put(self, *arguments):
        self.asked["put"] += 1
        if self.refuses:
            message = "read only"
            raise StoreDown(message)
        return super().put(*arguments)


def test_a_driver_that_waits_tells_once_in_the_time_of_a_lease_that_it_is_there(standing):
    led(standing)
    other = Machine()
    second, _ = standing.make("b", other, store=Counting)
    store = second._store
    for number in range(24):
        second._looks()
        other.clock += SECONDS / 6
        if number == 11:
            assert store.asked == {"get": 12, "put": 2}
            store.refuses = True
    assert second.metrics()["heartbeats"] == 2
    assert second.metrics()["heartbeats_failed"] == 12, "it goes on trying"
    store.refuses = False
    assert not second._looks(), "the store was away until now"
    assert second._looks()
    assert second.metrics()["heartbeats"] == 3


def test_a_driver_that_waits_asks_for_the_lease_at_each_look_and_for_the_rest_once_in_its_time(
    standing,
):
    first, _, machine = led(standing)
    other = Machine()
    second, _ = standing.make("b", other, store=Counting)
    asked = []

    def look() -> None:
        first._renew()
        asked.append(second._store.asked.total())

    waits = Waits(machine, other)
    waits.then = dict.fromkeys(range(30), look) | {30: waits.cancel}
    with pytest.raises(Cancelled):
        second.wait(Ready(), waits)
    # Six looks; the term, and that it is there; and the lease again, after it has read the term.
    assert {after - before for before, after in zip(asked, asked[6:], strict=False)} == {8}


class Hanging(Reached):
    """Hangs for longer than a lease and gives up, at one request for the lease."""

    hangs = False

    def get(self, namespace, key):
        if self.hangs and namespace == LEASES:
            self.hangs = False
            self._machine.clock += 2 * SECONDS
            message = "no answer"
            raise StoreDown(message)
        return super().get(namespace, key)


def test_who_waits_does_not_take_over_after_a_single_look_that_hung_and_failed(standing):
    first, _, _ = led(standing)
    other = Machine()
    second, told = standing.make("b", other, store=Hanging)
    waits = Waits(other)
    waits.then = {
        1: lambda: setattr(second._store, "hangs", True),
        3: first._renew,
        6: waits.cancel,
    }
    with pytest.raises(Cancelled):
        second.wait(Ready(), waits)
    assert not second._store.hangs
    assert not second.leads
    assert "no answer" in told.warned_[0]
