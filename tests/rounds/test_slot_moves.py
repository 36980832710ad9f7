"""When slots of a running job move, when they do not, and what the user hears."""

from __future__ import annotations

import pytest
from test_loop import FakeClock, FakeLevels, loop

from sparkdrain.drain.notification import DrainNotification
from sparkdrain.drain.phases import DrainPhase
from sparkdrain.drain.signal import DrainSignal
from sparkdrain.errors import Cancelled
from sparkdrain.hosts.executor import Executor
from sparkdrain.rounds.driver.checkpoint_flight import Cut
from sparkdrain.rounds.driver.checkpoints import NoCheckpoints
from sparkdrain.rounds.driver.moves import NoMoves, SlotMoves
from sparkdrain.rounds.driver.newcomers import Newcomers
from sparkdrain.rounds.driver.placement import Placement
from sparkdrain.rounds.messages import Orders
from sparkdrain.watermarks.frontier import BEGIN

A1, B3 = Executor("a", "1"), Executor("b", "3")


class Kept(NoCheckpoints):
    """A checkpoint is published by the round after the one that hurries.

    Attributes:
        works: whether it is.
    """

    def __init__(self) -> None:
        super().__init__()
        self.newest = None
        self.failures = 0
        self.works = True
        self._begun: int | None = None
        self._hurries = False

    def wake(self):
        return BEGIN if self._hurries else None

    def hurry(self) -> None:
        self._hurries = True

    def orders(self, schedule, play, now):
        if self._hurries and self._begun is None:
            self._begun = schedule.number
            return Orders(checkpoint=1, levels=frozenset({0, 1}))
        return Orders()

    def committed(self, reports, now) -> None:
        if self._begun is not None and self.works:
            self.newest = Cut(1, self._begun, 0, DrainPhase.READING, None, {}, {})
            self._begun, self._hurries = None, False


class Wish(NoMoves):
    """Slot 0 is to move until it has."""

    def __init__(self) -> None:
        self.begun: list[int] = []
        self.is_over = False

    def are_wanted(self) -> bool:
        return not self.begun

    def begin(self, number):
        self.begun.append(number)
        return frozenset({0})

    def over(self, seconds) -> None:
        self.is_over = True


@pytest.fixture
def levels() -> FakeLevels:
    return FakeLevels({(number, 0): 0 for number in range(1, 40)})


@pytest.fixture
def job(levels):
    made = loop(levels, FakeClock())
    made.checkpoints, made.moves = Kept(), Wish()
    return made


def test_a_job_stands_still_for_one_checkpoint_and_then_all_levels_run_where_slots_are(job, levels):
    job.run()
    (number,) = job.moves.begun
    assert job.moves.is_over
    still = {header.number for header in levels.headers if header.orders.still}
    assert still == {number - 1}, "the checkpoint before it was made while the job went on"
    assert not any(header.expected for header in levels.headers if header.orders.still)
    assert {(number, 0), (number, 1)} <= set(levels.ran)


def test_a_job_whose_storage_hangs_goes_on_and_moves_later(job, levels):
    seconds = iter(range(0, 100_000, 10))
    job.stopwatch = lambda: next(seconds)

    def tell(schedule, reports) -> None:
        job.checkpoints.works = job.checkpoints.newest is None or schedule.number > 20

    job.tell = tell
    job.run()
    still = {header.number for header in levels.headers if header.orders.still}
    at_work = {header.number for header in levels.headers if not header.orders.still}
    assert set(range(min(still) + 5, 20)) <= at_work, "it stands still for 30 s at most"
    assert job.moves.begun[0] > 20


def test_a_job_does_not_stand_still_while_checkpoints_fail(job, levels):
    job.checkpoints.failures = 1
    job.run()
    assert not job.moves.begun
    assert not any(header.orders.still for header in levels.headers)


def test_a_job_that_is_drained_moves_no_slots(job):
    job.drain.signal = DrainSignal()
    job.drain.signal.request(DrainNotification.create("run", 0))

    def tell(schedule, reports) -> None:
        if schedule.number == 30:
            job.cancel.cancel()

    job.tell = tell
    with pytest.raises(Cancelled):
        job.run()
    assert not job.moves.begun


def test_slots_that_are_to_move_are_ended_and_the_user_hears_where_they_are():
    placement, alive, now = Placement(3), [A1], [0.0]
    placement.begin(alive)
    placement.places([])
    newcomers = Newcomers(placement, lambda: alive, lambda: now[0])
    reopened, told = [], []
    moves = SlotMoves(
        placement, newcomers, lambda: alive, lambda *what: reopened.append(what), told.append
    )
    assert not moves.are_wanted()
    alive.append(B3)
    for _ in range(2):
        now[0] += 5
        wanted = moves.are_wanted()
    assert wanted
    slots = moves.begin(7)
    assert reopened == [(slots, 7)]
    assert not moves.are_wanted(), "the job would stand still again, for nothing"
    moves.over(1.25)
    (text,) = told
    assert f"Slot {min(slots)} moved to executor 3 on b" in text
    assert "stood still for 1.2 s" in text
    now[0] += 5
    assert not moves.are_wanted()


def test_nothing_is_ended_if_who_came_is_gone_again():
    placement, alive, now = Placement(2), [A1], [0.0]
    placement.begin(alive)
    newcomers = Newcomers(placement, lambda: alive, lambda: now[0])
    reopened = []
    moves = SlotMoves(placement, newcomers, lambda: alive, lambda *a: reopened.append(a), print)
    alive.append(B3)
    for _ in range(2):
        now[0] += 5
        moves.are_wanted()
    alive.remove(B3)
    assert moves.begin(3) == frozenset()
    assert not reopened
