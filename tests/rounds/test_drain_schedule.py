"""What the driver makes of a drain: which levels run, and who is told what."""

from __future__ import annotations

from dataclasses import replace

import pytest
from test_schedule import SLOTS, chain, report

from sparkdrain.rounds.driver.schedule import Schedule
from sparkdrain.rounds.messages import DrainOrder, Orders
from sparkdrain.rounds.record import record_of, report_of
from sparkdrain.watermarks.frontier import END

DRAIN = Orders(drain=DrainOrder("job/1", 10))


def reports(level, drained, **facts):
    """Of all slots; ``drained`` has an answer for each, or none if nobody has asked."""
    answers = [()] * SLOTS if drained is None else [(answer,) for answer in drained]
    return [
        replace(report(level, slot, **facts), drained=answer) for slot, answer in enumerate(answers)
    ]


@pytest.fixture
def schedule():
    """Of a chain of three levels that has nothing to do."""
    schedule = Schedule(chain(), SLOTS)
    schedule.commit([r for level in range(3) for r in reports(level, None)])
    return schedule


def header(schedule, level, orders=DRAIN, ran=None):
    return schedule.header(level, 1, 0, ran or {}, 1.0, 10, {}, orders)


def test_every_level_runs_when_the_job_is_drained_and_then_only_if_it_has_something_to_do(schedule):
    assert not schedule.is_draining()
    assert all(schedule.is_due(level, 0, {}, {}, DRAIN) for level in range(3))
    schedule.commit([r for level in range(3) for r in reports(level, [False, False])])
    assert schedule.is_draining()
    assert not any(schedule.is_due(level, 0, {}, {}, DRAIN) for level in range(3))


def test_a_level_runs_when_one_of_its_producers_is_drained(schedule):
    schedule.commit([r for level in range(3) for r in reports(level, [False, False])])
    ran = {0: reports(0, [True, False])}
    assert schedule.is_due(1, 0, ran, {}, DRAIN)
    assert not schedule.is_due(2, 0, ran, {}, DRAIN)
    schedule.commit(ran[0])
    assert not schedule.is_due(1, 0, ran, {}, DRAIN)


def test_a_slot_is_told_who_was_drained_before_the_round_and_whether_it_was_itself(schedule):
    schedule.commit(reports(0, [True, False]))
    schedule.commit(reports(1, [False, True]))
    told = header(schedule, 1, ran={0: reports(0, [True, True])})
    assert told.heard == {(0, 0)}
    assert told.drained == (True,)
    assert header(schedule, 0).heard == frozenset()


def test_nobody_is_told_anything_of_it_in_a_job_that_is_not_drained(schedule):
    schedule.commit(reports(0, [True, True]))
    assert header(schedule, 1, Orders()).heard == frozenset()


def test_a_job_is_drained_when_all_of_its_stages_are(schedule):
    schedule.commit([r for level in range(2) for r in reports(level, [True, True], time=END)])
    assert not schedule.is_drained()
    assert schedule.undrained() == ["stage 2"]
    schedule.commit(reports(2, [True, False], time=END))
    assert schedule.undrained() == ["stage 2"]
    schedule.commit(reports(2, [True, True], time=END))
    assert schedule.undrained() == []
    assert schedule.is_drained()


def test_refused_timers_are_added_up(schedule):
    refused = (("a step", "tick", 2),)
    for level in (0, 1):
        schedule.commit([replace(r, refused=refused) for r in reports(level, [False, False])])
    assert schedule.refused == {("a step", "tick"): 8}


def test_a_checkpoint_remembers_who_is_drained():
    for drained in ((), (True, False)):
        told = replace(report(0, 1), drained=drained)
        assert report_of(record_of(told)).drained == drained
