"""What a streaming job makes of the executors of a session before it is laid out on them."""

from __future__ import annotations

from pyspark import SparkConf

from sparkdrain.stages.executors import hazards, patience


class Session:
    def __init__(self, master: str, **given: str) -> None:
        self.master = master
        self.conf = SparkConf(loadDefaults=False)
        for name, value in given.items():
            self.conf.set(f"spark.{name.replace('_', '.')}", value)

    def getConf(self) -> SparkConf:
        return self.conf


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


def test_settings_that_take_state_away_are_named():
    told = hazards(Session("spark://host:7077", dynamicAllocation_enabled="true"))
    (told,) = told
    assert "set spark.dynamicAllocation.enabled=false" in told
    assert len(hazards(Session("yarn", speculation="true", dynamicAllocation_enabled="true"))) == 2


def test_other_settings_are_not():
    assert hazards(Session("yarn", speculation="false")) == []
    assert hazards(Session("local[2]", speculation="true")) == []
