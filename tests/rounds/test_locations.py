"""Executors are where they say they are, and slots follow."""

from __future__ import annotations

import json

import pytest

from sparkdrain.hosts.executor import Executor
from sparkdrain.rounds.driver.locations import Locations
from sparkdrain.rounds.driver.placement import Placement
from sparkdrain.stages.workers.preparation import Preparation

PREPARATION = Preparation.of({})
P1, P2, P3 = Executor("pod-1", "1"), Executor("pod-2", "2"), Executor("pod-3", "3")


class Asked:
    """Executors with an environment each; those of ``busy`` do not answer."""

    def __init__(self, environments, monkeypatch):
        self.environments = environments
        self.busy = set()
        self.asked = []
        self._monkeypatch = monkeypatch

    def __call__(self, executors, question):
        self.asked.append(list(executors))
        answers = {}
        for one in executors:
            if one not in self.busy:
                with self._monkeypatch.context() as patch:
                    for name, value in self.environments[one].items():
                        patch.setenv(name, value)
                    answers[one] = json.loads(json.dumps(question()))
        return answers


def test_each_executor_is_asked_once_and_one_that_was_busy_again(monkeypatch):
    asked = Asked({P1: {"NODE": "n1"}, P2: {"NODE": "n2"}}, monkeypatch)
    told = []
    locations = Locations("$NODE", PREPARATION, asked, told.append)
    asked.busy = {P2}
    locations.learn([P1, P2])
    assert [locations.of(one) for one in (P1, P2)] == ["n1", "pod-2"]
    asked.busy = set()
    locations.learn([P1, P2])
    locations.learn([P1, P2])
    assert [locations.of(one) for one in (P1, P2)] == ["n1", "n2"]
    assert asked.asked == [[P1, P2], [P2]]
    assert told == []


def test_a_variable_that_is_not_set_is_told_of_and_the_machine_counts(monkeypatch):
    told = []
    locations = Locations("$NODE_OF_NOBODY", PREPARATION, Asked({P1: {}}, monkeypatch), told.append)
    locations.learn([P1])
    locations.learn([P1])
    assert locations.of(P1) == "pod-1"
    (text,) = told
    assert "--location=$NODE_OF_NOBODY" in text
    assert "spark.executorEnv" in text


RACKS = """
import os

def mine():
    return "rack of " + os.environ["NODE"]

def none():
    return None
"""


@pytest.fixture
def racks(tmp_path, monkeypatch):
    (tmp_path / "racks_of_mine.py").write_text(RACKS)
    monkeypatch.syspath_prepend(str(tmp_path))


def test_a_function_of_the_user_says_where_an_executor_is(racks, monkeypatch):
    asked = Asked({P1: {"NODE": "n1"}, P2: {"NODE": "n2"}}, monkeypatch)
    locations = Locations("racks_of_mine:mine", PREPARATION, asked, print)
    locations.learn([P1, P2])
    assert [locations.of(one) for one in (P1, P2)] == ["rack of n1", "rack of n2"]


@pytest.mark.parametrize(
    ("function", "cause"),
    [
        ("racks_of_mine:mine", "raised KeyError"),
        ("racks_of_mine:none", "has returned None"),
        ("racks_of_mine:other", "raised AttributeError"),
        ("racks_of_nobody:mine", "raised ModuleNotFoundError"),
    ],
)
def test_a_function_that_fails_is_told_of_and_the_machine_counts(
    racks, monkeypatch, function, cause
):
    monkeypatch.delenv("NODE", raising=False)
    told = []
    locations = Locations(function, PREPARATION, Asked({P1: {}}, monkeypatch), told.append)
    locations.learn([P1])
    assert locations.of(P1) == "pod-1"
    (text,) = told
    assert f"--location={function} {cause}" in text


def test_without_the_option_nobody_is_asked(monkeypatch):
    asked = Asked({}, monkeypatch)
    locations = Locations("", PREPARATION, asked, print)
    locations.learn([P1])
    assert (locations.of(P1), asked.asked) == ("pod-1", [])


def test_slots_of_a_pod_that_is_gone_go_to_the_pod_on_the_same_node(monkeypatch):
    nodes = {P1: {"NODE": "n1"}, P2: {"NODE": "n2"}, P3: {"NODE": "n1"}}
    locations = Locations("$NODE", PREPARATION, Asked(nodes, monkeypatch), print)
    locations.learn([P1, P2, P3])
    placement = Placement(2, warm_copies=1, located=locations.located)
    placement.begin([P1, P2])
    assert placement.copies() == {0: (1,), 1: (0,)}
    before = placement.places([])
    placement.begin([P2, P3])
    after = placement.places([])
    moved = before.index(P1.place)
    assert after[moved] == P3.place
    assert after[1 - moved] == P2.place
    # Two pods of one node are one location: a copy on the other one is none.
    placement.begin([P1, P3])
    assert placement.copies() == {0: (), 1: ()}
