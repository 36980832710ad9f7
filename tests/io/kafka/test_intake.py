"""One client for all partitions of a process: what comes for others waits, within bounds."""

from __future__ import annotations

import threading

import pytest

from sparkdrain.io.kafka.choose import KafkaService
from sparkdrain.io.kafka.client import Partition
from sparkdrain.io.kafka.errors import KafkaDataLost
from sparkdrain.io.kafka.intake import Intake
from sparkdrain.io.kafka.settings import Settings
from sparkdrain.io.kafka.shared import Wanted, acquire, borrow, release

A, B = Partition("t", 0), Partition("t", 1)


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def intake(kafka, clock):
    kafka.topic("t", 2)
    return Intake(kafka.open_client(Settings("a")).records(headers=False), clock, room=10)


def test_records_of_another_partition_wait_until_they_are_asked_for(kafka, intake):
    kafka.put("t", 0, b"a")
    intake.take(B, 0, 0)
    kafka.put("t", 1, b"b")
    assert intake.take(A, 0, 0).values == [b"a"]
    kafka.away = True
    assert intake.take(B, 0, 0).values == [b"b"]


def test_an_intake_that_has_just_begun_waits_for_brokers_that_still_connect(kafka, clock):
    kafka.topic("t", 2)
    kafka.put("t", 0, b"a")
    records = kafka.open_client(Settings("a")).records(headers=False)
    poll, asked = records.poll, []

    def connect_first(seconds, most):
        asked.append(seconds)
        clock.now += 0.05
        return poll(0, most) if clock.now > 0.08 else ()

    records.poll = connect_first
    intake = Intake(records, clock)
    assert intake.take(A, 0, 0.005).values == [b"a"]
    assert len(asked) == 2
    assert not intake.take(B, 0, 0.005)
    assert len(asked) == 3, "brokers have said that there is nothing"
    kafka.put("t", 1, b"b")
    records.poll = lambda seconds, most: asked.append(seconds) or ()
    clock.now = 0.5
    assert not intake.take(A, 1, 0)
    assert len(asked) == 4, "later it does not wait"


def test_a_partition_that_nobody_takes_is_paused_and_goes_on_later(kafka, intake):
    records = intake._records
    assert not intake.take(B, 0, 0)
    kafka.put("t", 1, *[b"b"] * 11)
    assert not intake.take(A, 0, 0)
    assert records.paused == {B}
    kafka.put("t", 1, b"last")
    assert not intake.take(A, 0, 0)
    batch = intake.take(B, 0, 0)
    assert len(batch) == 11
    assert records.paused == set()
    assert intake.take(B, batch.after, 0).values == [b"last"]


def test_reading_goes_back_where_it_is_told_to(kafka, intake):
    kafka.put("t", 0, b"a", b"b", b"c")
    assert intake.take(A, 0, 0).offsets == [0, 1, 2]
    assert intake.take(A, 1, 0).offsets == [1, 2]


def test_what_is_put_back_comes_again(kafka, intake):
    kafka.put("t", 0, b"a", b"b", b"c")
    batch = intake.take(A, 0, 0)
    intake.put_back(1, batch.part(1, 3))
    kafka.away = True
    assert intake.take(A, 1, 0).offsets == [1, 2]
    assert kafka.follows == 1


def test_what_is_put_back_after_somebody_went_elsewhere_is_forgotten(kafka, intake):
    kafka.put("t", 0, b"a", b"b", b"c")
    batch = intake.take(A, 0, 0)
    intake.take(A, 0, 0)
    intake.put_back(2, batch.part(2, 3))
    intake.put_back(1, batch.part(1, 2))
    assert intake.take(A, 0, 0).offsets == [0, 1, 2]


def test_partitions_that_nobody_asks_for_are_left(kafka, intake, clock):
    intake.take(A, 0, 0)
    intake.take(B, 0, 0)
    clock.now = 15
    intake.take(B, 0, 0)
    clock.now = 30
    kafka.put("t", 0, b"a")
    intake.take(B, 0, 0)
    assert intake.followed() == [B]
    assert intake._records.next.keys() == {B}
    assert intake.take(A, 0, 0).values == [b"a"]


def test_what_is_lost_of_a_partition_is_told_to_who_asks_for_it_and_the_others_go_on(kafka, intake):
    kafka.put("t", 0, b"a", b"b")
    kafka.put("t", 1, b"c")
    intake.take(B, 1, 0)
    kafka.delete_before("t", 0, 2)
    kafka.put("t", 1, b"d")
    intake._lines.pop(A, None)
    intake._line(A, 0)  # as a reader that asked before
    assert intake.take(B, 1, 0).values == [b"d"]
    kafka.put("t", 1, b"e")
    with pytest.raises(KafkaDataLost, match=r"t\[0\]"):
        intake.take(A, 0, 0)
    assert intake.take(B, 2, 0).values == [b"e"]
    kafka.put("t", 0, b"f")
    assert intake.take(A, 2, 0).values == [b"f"]


def test_what_had_come_before_records_were_lost_is_handed_out_first(kafka, intake):
    kafka.put("t", 0, b"a")
    intake.take(B, 0, 0)
    intake._line(A, 0)
    intake.take(B, 0, 0)
    kafka.put("t", 0, b"b", b"c")
    kafka.delete_before("t", 0, 3)
    intake.take(B, 0, 0)
    assert intake.take(A, 0, 0).values == [b"a"]
    with pytest.raises(KafkaDataLost):
        intake.take(A, 1, 0)


def test_who_asks_again_for_what_is_lost_is_told_again(kafka, intake):
    kafka.put("t", 0, b"a")
    kafka.delete_before("t", 0, 1)
    for _ in range(2):
        with pytest.raises(KafkaDataLost):
            intake.take(A, 0, 0)
    assert kafka.follows == 2


def test_connections_are_shared_and_closed_by_the_last_who_lets_go(kafka):
    wanted = Wanted(KafkaService(Settings("a")), headers=False, reader="one")
    first, second = acquire(wanted), acquire(wanted)
    assert first is second is borrow(wanted)
    assert acquire(Wanted(KafkaService(Settings("a")), headers=False, reader="two")) is not first
    release(Wanted(KafkaService(Settings("a")), headers=False, reader="two"))
    _ = first.catalog, first.intake
    release(wanted)
    assert kafka.closed == 0
    release(wanted)
    assert (kafka.opened, kafka.closed) == (2, 2)
    assert borrow(wanted) is not first


def test_one_catalog_is_opened_by_many_threads(kafka):
    wanted = Wanted(KafkaService(Settings("a")), headers=False, reader="threads")
    shared = acquire(wanted)
    threads = [threading.Thread(target=lambda: shared.catalog) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert kafka.opened == 1
    release(wanted)
