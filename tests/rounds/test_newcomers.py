"""Executors that come after slots were placed: who is told of, when, and how often."""

from __future__ import annotations

from sparkdrain.hosts.executor import Executor
from sparkdrain.rounds.driver.moves import Newcomers
from sparkdrain.rounds.driver.placement import Placement

A1, A2, B3 = Executor("a", "1"), Executor("a", "2"), Executor("b", "3")


class Cluster:
    """Executors that come and go while a clock of its own goes on."""

    def __init__(self, slots: int, *alive: Executor) -> None:
        self.alive = list(alive)
        self.now = 0.0
        self.looks = 0
        self.told: list[str] = []
        self.placement = Placement(slots)
        self.placement.begin(self.alive)
        self.newcomers = Newcomers(self.placement, self.executors, lambda: self.now)

    def executors(self) -> list[Executor]:
        self.looks += 1
        return self.alive

    def look_after(self, seconds: float) -> list[str]:
        """What is told if somebody looks every second for so long."""
        self.told.clear()
        for _ in range(round(seconds)):
            self.now += 1
            self.newcomers.tell(self.told.append)
        return list(self.told)


def test_an_executor_that_comes_later_is_told_of_once():
    cluster = Cluster(2, A1)
    assert cluster.look_after(30) == []
    cluster.alive.append(B3)
    (told,) = cluster.look_after(30)
    assert "3 on b" in told
    assert "--checkpoint_dir" in told
    assert cluster.look_after(30) == []
    cluster.alive.append(A2)
    cluster.alive.remove(B3)
    (told,) = cluster.look_after(30)
    assert "2 on a" in told
    assert "3 on b" not in told


def test_an_executor_that_would_get_nothing_is_not_told_of():
    cluster = Cluster(2, A1, A2)
    cluster.alive.append(B3)
    assert cluster.look_after(30) == []


def test_nobody_is_told_of_while_an_executor_with_slots_is_gone_since_all_is_placed_anew_then():
    cluster = Cluster(2, A1, A2)
    cluster.alive[1] = B3
    assert cluster.look_after(30) == []


def test_executors_are_asked_for_every_five_seconds_at_most():
    cluster = Cluster(2, A1)
    cluster.look_after(61)
    assert cluster.looks == 12


def test_executors_are_found_when_no_more_come():
    cluster = Cluster(3, A1)
    cluster.alive.append(B3)
    assert cluster.look_after(6) == []
    cluster.alive.append(A2)
    assert cluster.look_after(5) == []
    (told,) = cluster.look_after(5)
    assert "2 on a, 3 on b" in told


def test_on_a_local_master_there_is_nothing_to_tell():
    cluster = Cluster(2)
    assert cluster.look_after(30) == []
