from __future__ import annotations

from dataclasses import replace

from sparkdrain.hosts.executor import Executor
from sparkdrain.hosts.line import HostId, HostRecord
from sparkdrain.rounds.driver.placement import Placement

A1, A2, B3 = Executor("a", "1"), Executor("a", "2"), Executor("b", "3")


def host(slot: int, executor: Executor | None, **more) -> HostRecord:
    return HostRecord(HostId("job", slot), "machine", 1, ("", 1), executor=executor, **more)


def test_a_slot_is_where_its_host_is_and_before_that_where_it_is_to_be():
    placement = Placement(3)
    placement.begin([A1, B3])
    assert placement.places([]) == ("executor_a_1", "executor_b_3", "executor_a_1")
    # Its task ran elsewhere.
    assert placement.places([host(0, B3)])[0] == "executor_b_3"


def test_a_machine_that_calls_itself_something_else_is_named_as_spark_does():
    placement = Placement(1)
    placement.begin([A1])
    assert placement.places([host(0, Executor("a.example", "1"))]) == (A1.place,)
    # It came later.
    assert placement.places([host(0, Executor("c", "9"))]) == ("executor_c_9",)


def test_in_the_next_life_of_a_job_only_those_move_whose_executor_is_gone():
    placement = Placement(4)
    placement.begin([A1, B3])
    hosts = [host(slot, executor) for slot, executor in enumerate([A1, B3, A1, B3])]
    before = placement.places(hosts)
    placement.begin([A2, B3])
    assert placement.displaced == {0: A2, 2: A2}
    assert placement.lost == {A1}
    # The hosts of the life before have ended.
    after = placement.places([replace(one, ended="killed") for one in hosts])
    assert after == ("executor_a_2", before[1], "executor_a_2", before[3])


def test_where_there_is_one_place_only_spark_is_told_nothing_and_nothing_is_counted():
    placement = Placement(2)
    placement.begin([])
    assert placement.places([host(0, None), host(1, None)]) == ()
    placement.ran(2, 0)
    assert placement.counts() == {}
    assert placement.told() == ""


def test_tasks_at_home_and_away_are_counted():
    placement = Placement(2)
    placement.begin([A1, B3])
    placement.ran(2, 0)
    placement.ran(2, 1)
    # A task that Spark has run again comes twice.
    placement.ran(2, 3)
    assert list(placement.counts()) == ["tasksAtHome", "tasksAway"]
    assert (placement.at_home, placement.away) == (3, 3)
    assert placement.told() == "3 of 6 tasks away from their slot's state"


def test_a_host_that_has_ended_is_no_place_for_its_slot():
    placement = Placement(1)
    placement.begin([A1])
    assert placement.places([host(0, B3, ended="killed")]) == (A1.place,)


def test_as_few_slots_as_possible_move_to_an_executor_that_comes():
    placement = Placement(4)
    placement.begin([A1])
    hosts = [host(slot, A1) for slot in range(4)]
    placement.places(hosts)
    assert placement.without_slots([A1, B3]) == {B3}
    moving = placement.moving([A1, B3])
    assert placement.move([A1, B3], {}) == {}
    first, second = moving
    assert placement.move([A1, B3], {first: B3}) == {first: B3}, "the other one lacks its files"
    assert placement.without_slots([A1, B3]) == {B3}
    moved = {first: B3, **placement.move([A1, B3], moving)}
    assert sorted(moved) == [first, second]
    assert set(moved.values()) == {B3}
    left = [replace(one, ended="closed") if one.id.slot in moved else one for one in hosts]
    assert [slot for slot, place in enumerate(placement.places(left)) if place == B3.place] == [
        *moved
    ]
    assert placement.without_slots([A1, B3]) == frozenset()
    assert placement.moving([A1, B3]) == {}


def test_nothing_moves_while_an_executor_with_slots_is_gone():
    placement = Placement(2)
    placement.begin([A1, A2])
    assert placement.moving([A1, B3]) == {}
    assert placement.move([A1, B3], {0: B3, 1: B3}) == {}
