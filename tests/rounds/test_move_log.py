"""What is told of slots that have moved."""

from __future__ import annotations

from sparkdrain.hosts.executor import Executor
from sparkdrain.rounds.driver.moves import MILLIS, MOVED, MoveLog

B3 = Executor("b", "3")


def test_slots_that_a_loss_has_moved_are_told_of_with_its_cause_and_how_long_it_took():
    told, now = [], [0.0]
    log = MoveLog(told.append, lambda: now[0])
    log.displaced({}, frozenset())
    log.committed()
    now[0] = 10.0
    log.committed()
    log.displaced({2: B3, 0: B3}, {Executor("a", "1")})
    assert not told, "no round has run there yet"
    now[0] = 14.5
    log.committed()
    log.committed()
    assert told == [
        "Moved: slots 0, 2 to executor 3 on b. Lost: 1 executor, 1 on a. The job stood still for "
        "4.5 s."
    ]
    assert log.counts() == {MOVED: 2, MILLIS: 4500}


def test_a_job_whose_slots_stay_has_nothing_to_tell():
    told = []
    log = MoveLog(told.append)
    for _ in range(3):
        log.displaced({}, frozenset())
        log.committed()
    log.moved({}, "Nobody came.", 1.0)
    assert not told
    assert log.counts() == {}
