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
from sparkdrain.rounds.driver.moves import MoveLog, Newcomers, SlotMoves
from sparkdrain.rounds.driver.placement import Placement
from sparkdrain.rounds.messages import Orders
from sparkdrain.watermarks.frontier import BEGIN

A1, A2, B3 = Executor("a", "1"), Executor("a", "2"), Executor("b", "3")


class Kept(NoCheckpoints):
    """A checkpoint is published by the round after the one that hurries.

    Attributes:
        works: whether it is.
        busy_until: the round that another one is on its way until.
    """

    busy_until = 0

    def __init__(self) -> None:
        super().__init__()
        self.newest = None
        self.failures = 0
        self.works = True
        self._begun: int | None = None
        self._hurries = False
        self._number = 0

    def wake(self):
        return BEGIN if self._hurries else None

    def hurry(self) -> None:
        self._hurries = True

    def rest(self) -> bool:
        return self._number >= self.busy_until

    def orders(self, schedule, play, now):
        self._number = schedule.number
        if self._hurries and self._begun is None:
            self._begun = schedule.number
            return Orders(checkpoint=1, levels=frozenset({0, 1}))
        return Orders()

    def committed(self, reports, now) -> None:
        if self._begun is not None and self.works:
            self.newest = Cut(1, self._begun, 0, DrainPhase.READING, None, {}, {})
            self._begun, self._hurries = None, False


class Wish:
    """In place of ``SlotMoves``: slot 0 is to move until it has."""

    def __init__(self) -> None:
        self.begun: list[int] = []
        self.is_over = False
        self.asked: list[int] = []
        self.patience = 0

    def are_wanted(self) -> bool:
        return not self.begun

    def are_ready(self, number):
        self.asked.append(number)
        return len(self.asked) > self.patience

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


def test_a_job_goes_on_while_files_are_brought_to_where_slots_move(job, levels):
    job.moves.patience = 10
    job.run()
    assert len(job.moves.asked) == 11
    still = {header.number for header in levels.headers if header.orders.still}
    assert still == {job.moves.begun[0] - 1}
    assert min(still) > 10


def test_a_job_does_not_stand_still_for_a_checkpoint_that_is_on_its_way(job, levels):
    job.checkpoints.busy_until = 12
    job.run()
    still = {header.number for header in levels.headers if header.orders.still}
    assert still == {job.moves.begun[0] - 1}
    assert min(still) > 12


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


class Cluster:
    """A job on one executor, to which another one comes.

    Attributes:
        there: slots whose files are at their new home, as ``HostSupply.there`` says.
        brought: what was to be brought.
    """

    def __init__(self, slots: int = 4, newcomer: Executor = B3) -> None:
        self.alive = [A1]
        self.now = 0.0
        self.placement = Placement(slots)
        self.placement.begin(self.alive)
        self.placement.places([])
        self.reopened: list[tuple[frozenset[int], int]] = []
        self.told: list[str] = []
        self.warned: list[str] = []
        self.there: frozenset[int] | None = frozenset()
        self.brought: list[dict[int, Executor]] = []
        newcomers = Newcomers(self.placement, lambda: self.alive, lambda: self.now)
        self.moves = SlotMoves(
            self.placement,
            newcomers,
            lambda: self.alive,
            lambda *what: self.reopened.append(what),
            Brought(self),
            MoveLog(self.told.append),
            self.warned.append,
        )
        assert not self.moves.are_wanted()
        self.alive.append(newcomer)
        assert self.is_wanted()

    def is_wanted(self) -> bool:
        """Whether slots are to move when some looks have seen the same."""
        for _ in range(3):
            self.now += 5
            wanted = self.moves.are_wanted()
        return wanted


class Brought:
    """In place of ``HostSupply``."""

    wrong = "no room"

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def begin(self, moving) -> None:
        self._cluster.brought.append(dict(moving))

    def there(self):
        return self._cluster.there


def test_slots_that_are_to_move_are_ended_and_the_user_hears_where_they_are():
    cluster = Cluster()
    moves = cluster.moves
    cluster.there = None
    assert not moves.are_ready(1)
    (moving,) = cluster.brought
    cluster.there = frozenset(moving)
    assert moves.are_ready(1)
    slots = moves.begin(7)
    assert cluster.reopened == [(slots, 7)]
    assert slots == set(moving)
    assert not moves.are_wanted(), "the job would stand still again, for nothing"
    moves.over(1.25)
    (text,) = cluster.told
    first, second = sorted(slots)
    assert text == (
        f"Moved: slots {first}, {second} to executor 3 on b. 1 executor came after the job had "
        "begun: 3. The job stood still for 1.2 s."
    )
    assert not cluster.is_wanted()


def test_a_slot_moves_when_its_files_are_where_it_goes_and_its_old_home_has_it_until_then():
    cluster = Cluster()
    moves = cluster.moves
    assert not moves.are_ready(1), "nothing could be brought"
    (moving,) = cluster.brought
    assert set(moving.values()) == {B3}
    first, second = sorted(moving)
    assert cluster.is_wanted(), "it is tried again"
    cluster.there = frozenset({second})
    assert moves.are_ready(1)
    assert moves.begin(3) == {second}
    assert cluster.placement.places([])[first] == A1.place
    assert cluster.is_wanted(), "the other one is to move, too"
    cluster.there = frozenset({first})
    assert moves.are_ready(2)
    assert moves.begin(4) == {first}
    assert not cluster.is_wanted()


def test_the_user_hears_once_why_slots_stay_again_and_again():
    cluster = Cluster()
    for number in range(1, 6):
        assert not cluster.moves.are_ready(number)
        assert cluster.is_wanted()
        assert len(cluster.warned) == (number > 1)
    (text,) = cluster.warned
    assert text.startswith(
        "2 slots cannot move to executor 3 on b, because files could not be brought there 2 times "
        "in a row: no room. The job goes on where its slots are"
    )
    assert "--state_dir" in text
    moving = cluster.brought[-1]
    first, second = sorted(moving)
    cluster.there = frozenset({first, second})
    assert cluster.moves.are_ready(7)
    assert len(cluster.moves.begin(8)) == 2
    assert len(cluster.warned) == 1


def test_what_was_made_while_files_were_brought_is_brought_too_but_not_for_ever():
    cluster = Cluster()
    for number, times in ((1, 1), (5, 2), (6, 3), (7, 3)):
        cluster.there = None
        assert not cluster.moves.are_ready(number)
        cluster.there = frozenset(range(4))
        ready = cluster.moves.are_ready(number)
        assert len(cluster.brought) == times
    assert ready


def test_nothing_is_brought_to_a_place_that_has_the_files():
    cluster = Cluster(newcomer=A2)
    assert cluster.moves.are_ready(1)
    assert cluster.brought == [{}]
    assert len(cluster.moves.begin(2)) == 2


def test_nothing_is_ended_if_who_came_is_gone_again():
    cluster = Cluster(2)
    cluster.there = frozenset(range(2))
    assert cluster.moves.are_ready(1)
    cluster.alive.remove(B3)
    assert cluster.moves.begin(3) == frozenset()
    assert not cluster.reopened
    assert not cluster.moves.are_ready(2), "the job does not stand still for nothing"
