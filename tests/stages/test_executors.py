"""What a job makes of the executors of a session before it is laid out on them."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from pyspark import SparkConf

from sparkdrain.hosts.executor import Executor
from sparkdrain.stages.cluster import executors
from sparkdrain.stages.cluster.executors import await_executors, hazards, patience


class Session:
    def __init__(self, master: str, **given: str) -> None:
        self.master = master
        self.conf = SparkConf(loadDefaults=False)
        for name, value in given.items():
            self.conf.set(f"spark.{name.replace('_', '.')}", value)

    def getConf(self) -> SparkConf:
        return self.conf

    _jsc = SimpleNamespace(sc=lambda: SimpleNamespace(startTime=lambda: 0))


class Cluster:
    """Executors that come at some time, to a session that began at 0; time goes on by waiting."""

    def __init__(self, *added: float) -> None:
        self.added = added
        self.now = 0.0
        self.told: list[str] = []

    def wait(self, seconds: float) -> None:
        self.now += seconds

    def is_cancelled(self) -> bool:
        return False

    def registered(self, context) -> list[tuple[Executor, float]]:
        return [(Executor("a", f"{at}"), at) for at in self.added if at <= self.now]

    def await_them(self, session: Session, monkeypatch, came=None) -> float:
        """How long it was waited for them."""
        monkeypatch.setattr(executors, "registered_executors", self.registered)
        await_executors(session, self, self.told.append, came, clock=lambda: self.now)
        return self.now


def test_without_any_executor_it_gives_up_after_a_while():
    assert patience(10.0, 10.0, 0.0, [], 2) == 30.0
    assert patience(41.0, 10.0, 0.0, [], None) < 0


def test_as_soon_as_all_that_were_asked_for_are_there_it_goes_on():
    assert patience(5.0, 4.0, 0.0, [5.0, 5.0], 2) == 0
    assert patience(5.0, 4.0, 0.0, [5.0], 2) > 0


def test_it_waits_until_none_comes_for_half_as_long_as_the_first_took():
    assert patience(4.0, 2.0, 0.0, [4.0], None) == 2.0
    assert patience(5.5, 2.0, 0.0, [4.0, 5.0], None) == 1.5
    assert patience(7.0, 2.0, 0.0, [4.0, 5.0], None) == 0


def test_the_wait_is_a_second_at_least_and_a_quarter_of_a_minute_at_most():
    assert patience(0.2, 0.0, 0.0, [0.2], None) == 1.0
    assert patience(100.0, 0.0, 0.0, [100.0], None) == 15.0


def test_in_a_session_that_has_been_there_it_does_not_wait():
    assert patience(500.0, 500.0, 0.0, [4.0, 5.0], None) < 0


@pytest.mark.parametrize("came", [None, list])
def test_a_cluster_that_gives_no_executor_is_told_of(monkeypatch, came):
    cluster = Cluster()
    waited = cluster.await_them(Session("yarn"), monkeypatch, came)
    assert waited == pytest.approx(30)
    (told,) = cluster.told
    assert "yarn has given no executor in 30 s" in told


def test_a_job_without_homes_waits_for_the_first_executor_only(monkeypatch):
    two = Session("spark://a:1", executor_instances="2")
    for came, waited in ((None, 3), (list, 4)):
        cluster = Cluster(3, 4)
        found = cluster.await_them(two, monkeypatch, came)
        assert found == pytest.approx(waited, abs=0.2)
        assert cluster.told == []


@pytest.mark.parametrize(
    "session", [Session("local[2]"), Session("yarn", dynamicAllocation_enabled="true")]
)
def test_where_no_executor_has_to_be_there_nobody_waits(monkeypatch, session):
    cluster = Cluster()
    assert cluster.await_them(session, monkeypatch) == 0
    assert cluster.told == []


def test_each_executor_is_told_of_once_as_soon_as_it_is_there(monkeypatch):
    cluster, came = Cluster(3, 4), []
    cluster.await_them(
        Session("spark://a:1"), monkeypatch, lambda new: came.append((cluster.now, new))
    )
    assert [(round(at), [one.id for one in new]) for at, new in came] == [
        (3, ["3"]),
        (4, ["4"]),
    ]


def test_settings_that_take_state_away_are_named():
    told = hazards(Session("spark://host:7077", dynamicAllocation_enabled="true"))
    (told,) = told
    assert "set spark.dynamicAllocation.enabled=false" in told
    assert len(hazards(Session("yarn", speculation="true", dynamicAllocation_enabled="true"))) == 2


def test_other_settings_are_not():
    assert hazards(Session("yarn", speculation="false")) == []
    assert hazards(Session("local[2]", speculation="true")) == []
