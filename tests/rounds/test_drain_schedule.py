"""What the driver makes of a drain: which levels run, and who is told what."""

from __future__ import annotations

from dataclasses import replace

import pytest
from test_schedule import SLOTS, chain, report

from sparkdrain.rounds.driver.inheritances import kept_form, report_of
from sparkdrain.rounds.driver.schedule import Schedule
from sparkdrain.rounds.messages import DrainOrder, Inheritance, Missing, Orders
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


def test_every_level_runs_when_the_job_is_drained_and_then_only_if_it_has_something_to_do(schedule):
    assert not schedule.knows_of_drain()
    assert all(schedule.is_due(level, 0, {}, {}, DRAIN) for level in range(3))
    schedule.commit([r for level in range(3) for r in reports(level, [False, False])])
    assert schedule.knows_of_drain()
    assert not any(schedule.is_due(level, 0, {}, {}, DRAIN) for level in range(3))


def test_a_level_runs_when_one_of_its_producers_is_drained(schedule):
    schedule.commit([r for level in range(3) for r in reports(level, [False, False])])
    ran = {0: reports(0, [True, False])}
    assert schedule.is_due(1, 0, ran, {}, DRAIN)
    assert not schedule.is_due(2, 0, ran, {}, DRAIN)
    schedule.commit(ran[0])
    assert not schedule.is_due(1, 0, ran, {}, DRAIN)


def test_after_a_resume_every_level_runs_again_so_that_all_producers_tell_their_consumers(schedule):
    all_ = [r for level in range(3) for r in reports(level, [True, True], time=END)]
    restored = Schedule(chain(), SLOTS)
    restored.restore(7, {(r.level, r.slot): Inheritance(r, (), SLOTS) for r in all_})
    assert restored.is_drained(), "a job that was drained before it was resumed is over"
    assert not restored.knows_of_drain()
    assert all(restored.is_due(level, 0, {}, {}, DRAIN) for level in range(3))
    restored.commit([r for r in all_ if r.level < 2])
    assert not restored.is_due(0, 0, {}, {}, DRAIN)
    assert restored.is_due(2, 0, {}, {}, DRAIN)
    assert not restored.knows_of_drain()
    restored.commit([r for r in all_ if r.level == 2])
    assert restored.knows_of_drain()


def test_a_job_is_truncated_when_all_slots_have_heard_and_none_has_restrictions_left_to_truncate(
    schedule,
):
    schedule.commit(reports(0, [False, False]))
    assert not schedule.is_truncated()
    schedule.commit([replace(r, untruncated=True) for r in reports(1, [False, False])])
    schedule.commit(reports(2, [False, False]))
    assert not schedule.is_truncated()
    schedule.commit(reports(1, [False, False]))
    assert schedule.is_truncated()


def missing(level):
    return (Missing(f"stage {level}", level - 1, 1),)


def test_a_job_waits_for_drain_messages_only_if_nothing_else_holds_a_stage(schedule):
    schedule.commit(reports(0, [True, True], time=END))
    waiting = [replace(r, missing=missing(1)) for r in reports(1, [True, False], time=END)]
    schedule.commit([waiting[0], waiting[1]])
    schedule.commit([replace(r, missing=missing(2)) for r in reports(2, [False, False], time=END)])
    assert {(each.stage, each.producers) for each in schedule.missing()} == {
        ("stage 1", 1),
        ("stage 2", 1),
    }
    # Slot 1 of stage 1 has heard from all, and yet it is not drained: something holds it.
    schedule.commit(reports(1, [True, False], time=END))
    assert schedule.missing() == []
    schedule.commit(reports(1, [True, True], time=END))
    schedule.commit(reports(2, [True, True], time=END))
    assert schedule.missing() == []


def test_messages_of_other_runs_are_added_up(schedule):
    schedule.commit([replace(r, strangers=2) for r in reports(0, [False, False])])
    schedule.commit([replace(r, strangers=1) for r in reports(1, [False, False])])
    assert schedule.strangers == 6


def test_a_job_is_drained_when_all_of_its_stages_are(schedule):
    schedule.commit([r for level in range(2) for r in reports(level, [True, True], time=END)])
    assert not schedule.is_drained()
    assert schedule.undrained() == ["stage 2"]
    schedule.commit(reports(2, [True, False], time=END))
    assert schedule.undrained() == ["stage 2"]
    schedule.commit(reports(2, [True, True], time=END))
    assert schedule.undrained() == []
    assert schedule.is_drained()


def test_a_job_is_not_drained_before_every_slot_has_told():
    schedule = Schedule(chain(), SLOTS)
    assert not schedule.is_drained()
    schedule.commit([r for level in range(2) for r in reports(level, [True, True], time=END)])
    assert not schedule.is_drained()
    schedule.commit(reports(2, [True, True], time=END)[:1])
    assert not schedule.is_drained()
    schedule.commit(reports(2, [True, True], time=END)[1:])
    assert schedule.is_drained()


def test_a_job_is_not_drained_while_one_of_a_slots_stages_is_not(schedule):
    schedule.commit([r for level in range(3) for r in reports(level, [True, True], time=END)])
    of_two = [replace(r, drained=(True, False)) for r in reports(2, [True, True], time=END)]
    schedule.commit(of_two)
    assert not schedule.is_drained()
    schedule.commit([replace(r, drained=(True, True)) for r in of_two])
    assert schedule.is_drained()


def test_refused_timers_are_added_up(schedule):
    refused = (("a step", "tick", 2),)
    for level in (0, 1):
        schedule.commit([replace(r, refused=refused) for r in reports(level, [False, False])])
    assert schedule.refused == {("a step", "tick"): 8}


def test_a_checkpoint_remembers_who_is_drained():
    for drained in ((), (True, False)):
        told = replace(report(0, 1), drained=drained)
        assert report_of(kept_form(told)).drained == drained
