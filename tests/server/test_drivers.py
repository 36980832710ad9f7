"""When the spare driver of a server is started, given away and replaced."""

from __future__ import annotations

import itertools

import pytest

from sparkdrain.errors import DriverLost
from sparkdrain.jobs.engine import SparkEngine
from sparkdrain.options import JobSettings
from sparkdrain.server.drivers import Drivers
from sparkdrain.server.session import Session
from tests.support.waiting import wait_until

HERE, OTHER = Session("local[2]"), Session("local[3]")


class Driver:
    pid = 1
    is_alive = is_ready = True
    is_ended = False

    def end(self) -> None:
        self.is_ended = True

    def lost(self) -> DriverLost:
        return DriverLost("The process was killed.")


class Place:
    """Drivers that do nothing, and a clock that a test sets."""

    def __init__(self, *, is_warm: bool = True) -> None:
        self.now = 0.0
        self.started: list[tuple[Session, bool, Driver]] = []
        self.drivers = Drivers(self.launch, HERE, is_warm=is_warm, clock=lambda: self.now)

    def launch(self, session: Session, *, warm: bool) -> Driver:
        self.started.append((session, warm, Driver()))
        return self.started[-1][2]

    def spares(self) -> int:
        return sum(warm for _, warm, _ in self.started)

    def watch_at(self, now: float) -> int:
        self.now = now
        self.drivers.watch()
        return self.spares()


def test_after_a_job_took_the_spare_the_next_starts_when_the_job_has_or_has_ended():
    place = Place()
    assert place.watch_at(0) == 1
    assert place.drivers.take(HERE).how == "was ready"
    assert place.watch_at(9) == 1
    assert place.watch_at(10) == 2
    place.drivers.take(HERE)
    place.drivers.hurry()
    assert place.spares() == 3


def test_a_spare_that_is_not_ready_yet_is_given_away_too():
    place = Place()
    place.watch_at(0)
    place.started[0][2].is_ready = False
    assert place.drivers.take(HERE).how == "had begun to get ready"


def test_a_spare_of_another_session_is_ended_and_the_next_is_as_the_newest_job():
    place = Place()
    place.watch_at(0)
    taken = place.drivers.take(OTHER)
    assert "has another --spark_master_url or --spark_conf" in taken.how
    wait_until(lambda: place.started[0][2].is_ended)
    place.watch_at(20)
    assert [(each[0], each[1]) for each in place.started] == [
        (HERE, True),
        (OTHER, False),
        (OTHER, True),
    ]


def test_spares_that_die_in_a_row_are_replaced_more_and_more_seldom():
    place = Place()
    place.watch_at(0)
    began = []
    for now in range(200):
        if place.watch_at(now) > len(began):
            began.append(now)
            place.started[-1][2].is_alive = False
        place.drivers.hurry()
    pauses = [later - sooner for sooner, later in itertools.pairwise(began)]
    assert pauses[:4] == sorted(pauses[:4])
    assert pauses[0] <= 2
    assert 60 <= max(pauses) <= 61


def test_without_warm_no_driver_waits():
    place = Place(is_warm=False)
    assert place.watch_at(100) == 0
    assert place.drivers.take(HERE).how == "starts Spark first: no driver waited"


def test_there_is_no_spare_after_the_end():
    place = Place()
    place.watch_at(0)
    place.drivers.close()
    assert place.started[0][2].is_ended
    assert place.watch_at(100) == 1


@pytest.mark.parametrize(("master", "times"), [("local[2]", 3), ("spark://nowhere:1", 0)])
def test_a_spare_rehearses_until_java_has_compiled_and_takes_no_executors_of_a_cluster(
    monkeypatch, master, times
):
    asked = []
    monkeypatch.setattr("sparkdrain.stages.batch.rehearsal.rehearse", asked.append)
    monkeypatch.setattr(SparkEngine, "head_start", lambda *_: None)
    SparkEngine().warm_up(JobSettings(spark_master_url=master))
    assert len(asked) == times
