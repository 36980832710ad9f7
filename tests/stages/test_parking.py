"""Sessions that begin without executors: they are asked for and given back; no Spark."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from py4j.protocol import Py4JError
from pyspark import SparkConf

from sparkdrain.stages.cluster import parking
from sparkdrain.stages.cluster.parking import ParkedExecutors, park


class Session:
    """A session of Spark; executors come when a test says so."""

    def __init__(self, master: str, **given: str) -> None:
        self.conf = SparkConf(loadDefaults=False)
        for name, value in given.items():
            self.conf.set(f"spark.{name.replace('_', '.')}", value)
        park(self.conf, master)
        self.asked: list[int] = []
        self.there: list[str] = []
        self.is_lost = False

    def getConf(self) -> SparkConf:
        return self.conf

    def request(self, number: int) -> None:
        self.check()
        self.asked.append(number)

    def summaries(self) -> list[tuple[SimpleNamespace, float]]:
        self.check()
        return [(SimpleNamespace(id=one), 0.0) for one in self.there]

    def end(self, ids: list[str]) -> None:
        self.there = [one for one in self.there if one not in ids]

    def check(self) -> None:
        if self.is_lost:
            raise Py4JError


@pytest.fixture
def session(monkeypatch):
    monkeypatch.setattr(parking, "request_executors", Session.request)
    monkeypatch.setattr(parking, "registered_executors", Session.summaries)
    monkeypatch.setattr(parking, "end_executors", Session.end)
    return Session("spark://host:7077", executor_instances="2")


def test_executors_are_asked_for_once_and_kept(session):
    executors = ParkedExecutors(session)
    executors.summon()
    session.there = ["0", "1"]
    executors.summon()
    assert session.asked == [2]
    assert session.there == ["0", "1"]


def test_those_that_come_after_they_were_dismissed_are_given_back_too(session):
    executors = ParkedExecutors(session)
    executors.summon()
    session.there = ["0"]
    executors.dismiss()
    assert session.asked == [2, 0]
    assert session.there == []
    session.there = ["1"]
    executors.dismiss()
    assert session.there == []
    executors.summon()
    assert session.asked == [2, 0, 2]


def test_a_session_that_has_never_asked_is_not_looked_at(session):
    session.there = ["0"]
    ParkedExecutors(session).dismiss()
    assert session.there == ["0"]
    assert session.asked == []


@pytest.mark.parametrize("dynamic", ["true", "false"])
def test_a_session_that_keeps_its_executors_is_left_alone(session, dynamic):
    other = Session("local[2]" if dynamic == "false" else "yarn", dynamicAllocation_enabled=dynamic)
    other.there = ["0"]
    executors = ParkedExecutors(other)
    executors.summon()
    executors.dismiss()
    assert other.asked == []
    assert other.there == ["0"]


def test_a_session_that_is_lost_is_told_of_elsewhere(session):
    executors = ParkedExecutors(session)
    session.is_lost = True
    executors.summon()
    executors.dismiss()
