from __future__ import annotations

import pytest

from sparkdrain.graph.plan import (
    Edge,
    EdgeId,
    EdgeKind,
    LevelIndex,
    PCollectionId,
    Plan,
    Stage,
    TransformId,
)
from sparkdrain.rounds.driver.schedule import Schedule
from sparkdrain.rounds.messages import RoundReport
from sparkdrain.stages.shards.turn import Feed
from sparkdrain.watermarks.frontier import BEGIN, END, FrontierWentBack

SLOTS = 2


def chain(levels: int = 3) -> Plan:
    """One stage on each level, each reading the one before."""
    stages = []
    for level in range(levels):
        sources = ((TransformId(f"read {level}"), EdgeId(level - 1) if level else None),)
        sinks = ((TransformId(f"write {level}"), EdgeId(level)),) if level < levels - 1 else ()
        stages.append((Stage(f"stage {level}", LevelIndex(level), (), sources, sinks, (), ""),))
    edges = tuple(
        Edge(EdgeId(e), EdgeKind.FORWARD, PCollectionId("p"), LevelIndex(e), LevelIndex(e + 1))
        for e in range(levels - 1)
    )
    return Plan(b"", tuple(stages), edges)


def report(level, slot, *, time=BEGIN, sent=(), wake=None, attempt=1, number=1):
    return RoundReport(level, slot, number, attempt, {}, (time,), frozenset(sent), wake)


def reports(level, **facts):
    return [report(level, slot, **facts) for slot in range(SLOTS)]


@pytest.fixture
def schedule():
    """Of a chain whose first round is over: nothing came, nothing is known."""
    schedule = Schedule(chain(), SLOTS)
    schedule.commit([r for level in range(3) for r in reports(level)])
    return schedule


def test_runs_every_level_in_the_first_round_whatever_there_is_to_do():
    schedule = Schedule(chain(), SLOTS)
    assert all(schedule.is_due(level, 0, {}, {}) for level in range(3))
    assert schedule.wake() == BEGIN
    assert not schedule.is_over()


def test_leaves_levels_alone_that_have_nothing_to_do(schedule):
    assert not any(schedule.is_due(level, 0, {}, {}) for level in range(3))
    assert schedule.wake() is None


def test_runs_a_level_when_its_time_has_come(schedule):
    schedule.commit([report(1, 0, wake=50), report(1, 1)])
    assert schedule.wake() == 50
    assert not schedule.is_due(1, 49, {}, {})
    assert schedule.is_due(1, 50, {}, {})


def test_runs_a_level_when_something_was_sent_to_it(schedule):
    ran = {0: [report(0, 0), report(0, 1, sent=[0])]}
    assert schedule.is_due(1, 0, ran, {})
    assert not schedule.is_due(2, 0, ran, {})


def test_runs_a_level_when_the_frontier_of_its_input_has_moved(schedule):
    assert schedule.is_due(1, 0, {0: reports(0, time=5)}, {})


def test_waits_for_the_slowest_producer(schedule):
    ran = {0: [report(0, 0, time=5), report(0, 1, time=BEGIN)]}
    assert not schedule.is_due(1, 0, ran, {})


def test_runs_a_level_whose_source_is_given_something(schedule):
    assert schedule.is_due(0, 0, {}, {"read 0": Feed((), 3)})
    assert not schedule.is_due(1, 0, {}, {"read 0": Feed((), 3)})


def test_tells_a_slot_which_version_of_its_state_counts(schedule):
    assert Schedule(chain(), SLOTS).header(0, 1, 9, {}, 1, 1, {}).committed is None
    schedule.commit([report(0, 0, attempt=7), report(0, 1, attempt=8)])
    assert schedule.header(0, 1, 9, {}, 1, 1, {}).committed == 8


def test_forgets_a_round_that_was_not_committed(schedule):
    before = schedule.header(1, 0, 9, {}, 1, 1, {})
    schedule.is_due(1, 0, {0: reports(0, time=5, sent=[0])}, {})
    assert schedule.header(1, 0, 9, {}, 1, 1, {}) == before


def test_expects_end_messages_of_all_slots_of_the_levels_that_ran(schedule):
    header = schedule.header(1, 0, 9, {0: reports(0)}, 1, 1, {})
    assert header.expected == {(0, 0), (0, 1)}
    assert schedule.header(1, 0, 9, {}, 1, 1, {}).expected == frozenset()


def test_gives_feeds_only_to_the_level_that_has_the_source(schedule):
    feeds = {"read 0": Feed((), 3)}
    assert schedule.header(0, 0, 9, {}, 1, 1, feeds).feeds == feeds
    assert schedule.header(1, 0, 9, {}, 1, 1, feeds).feeds == {}


def test_is_over_when_time_has_ended_everywhere_and_nothing_is_due(schedule):
    for level in range(3):
        assert not schedule.is_over()
        schedule.commit(reports(level, time=END))
    assert schedule.is_over()
    schedule.commit([report(1, 0, time=END, wake=99)])
    assert not schedule.is_over()


def test_refuses_a_frontier_that_goes_back(schedule):
    schedule.commit(reports(1, time=5))
    with pytest.raises(FrontierWentBack):
        schedule.commit(reports(1, time=4))
