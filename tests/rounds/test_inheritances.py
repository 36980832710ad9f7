"""What slots begin with if there were others before: never more promised, nothing counted twice."""

from __future__ import annotations

from dataclasses import replace

import pytest
from apache_beam.metrics import monitoring_infos

from sparkdrain.checkpoints.manifest import ShardState
from sparkdrain.rounds.driver.inheritances import inheritances, kept_form
from sparkdrain.rounds.messages import RoundReport
from sparkdrain.watermarks.frontier import BEGIN
from tests.support.random_pipelines import results

REPORT = RoundReport(0, 0, 9, 77, {}, (10, 20), frozenset(), None)


def counted(number):
    info = monitoring_infos.int64_user_counter("out", "c", number, ptransform="p")
    return [info.SerializeToString()]


def inherited(reports, slots):
    shards = [ShardState(r.level, r.slot, (), kept_form(r)) for r in reports]
    return [i for _, i in sorted(inheritances(shards, len(reports), slots).items())]


def of_slots(*changes):
    return [replace(REPORT, slot=n, **change) for n, change in enumerate(changes)]


@pytest.mark.parametrize("slots", [1, 2, 3, 7])
def test_slots_promise_together_what_the_old_ones_did(slots):
    old = of_slots({"outputs": (10, 50), "wake": 8}, {"outputs": (30, 40), "wake": 5}, {})
    for number, inheritance in enumerate(inherited(old, slots)):
        report = inheritance.report
        assert (report.slot, report.attempt, report.number) == (number, 77, 9)
        if slots != 3:
            assert (report.outputs, report.wake) == ((10, 20), 5)
    if slots == 3:
        assert [i.report.outputs for i in inherited(old, slots)] == [r.outputs for r in old]


@pytest.mark.parametrize("slots", [1, 2, 3, 7])
def test_everything_is_counted_once(slots):
    old = of_slots(*({"metrics": counted(10**n), "dropped": 2 * 10**n} for n in range(3)))
    new = [inheritance.report for inheritance in inherited(old, slots)]
    assert results(new) == {"c": 111}
    assert sum(report.dropped for report in new) == 222


def test_a_slot_is_drained_if_all_were_that_it_inherits_from():
    old = of_slots({"drained": (True, True)}, {"drained": (True, False)})
    drained = [inheritance.report.drained for inheritance in inherited(old, 3)]
    assert drained == [(True, True), (True, False), (True, False)]
    assert inherited(of_slots({}, {}), 1)[0].report.drained == ()


def test_side_inputs_come_from_whoever_is_behind_all_others():
    old = of_slots({"passed": {3: 9, 4: BEGIN}}, {"passed": {3: 7, 4: 1}}, {"passed": {3: 8, 4: 2}})
    for inheritance in inherited(old, 2):
        assert inheritance.givers == {3: 1, 4: 0}
        assert inheritance.report.passed == {3: 7, 4: BEGIN}
        slots = {shard.slot for shard in inheritance.shards}
        assert {0, 1} <= slots


def test_with_as_many_slots_each_has_its_own_files():
    old = of_slots({}, {})
    for number, inheritance in enumerate(inherited(old, 2)):
        assert [shard.slot for shard in inheritance.shards] == [number]
