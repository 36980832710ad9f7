"""Every partition is found once, whenever it was made, however looking for it is interrupted."""

from __future__ import annotations

import time

import pytest
from apache_beam.utils.timestamp import MIN_TIMESTAMP
from hypothesis import given
from hypothesis import strategies as st
from one_by_one import process, provider_of

from sparkdrain.io.kafka.choose import KafkaService
from sparkdrain.io.kafka.client import Partition
from sparkdrain.io.kafka.discovery import (
    FindPartitions,
    Known,
    KnownCoder,
    Topics,
    WatchPartitions,
)
from sparkdrain.io.kafka.errors import KafkaRefused
from sparkdrain.io.kafka.positions import Position
from sparkdrain.io.kafka.settings import Settings
from sparkdrain.io.kafka.shared import Wanted
from sparkdrain.io.kafka.watermarks import Watermarks

WANTED = Wanted(KafkaService(Settings("fake")), headers=False, reader="discovery")
partitions = st.lists(st.builds(Partition, st.text(max_size=3), st.integers(0, 99))).map(tuple)


@pytest.fixture
def watch(kafka):
    made = []

    def make(topics=("t",), pattern=None):
        one = WatchPartitions(WANTED, Topics(topics, pattern), 3.0, Watermarks(2.0))
        one.setup()
        made.append(one)
        return one

    yield make
    for one in made:
        one.teardown()


def look(dofn, turn=None, **settings):
    """Asks until there is an answer, which comes from another thread."""
    end = time.monotonic() + 20
    while True:
        known = (turn.residual, turn.watermark) if turn else (Known(), None)
        turn = process(dofn, b"", *known, **settings)
        if turn.resume is None or turn.resume > 1:
            return turn
        assert time.monotonic() < end


def test_what_is_there_at_first_is_not_new(kafka, watch):
    kafka.topic("t", 2)
    kafka.topic("other")
    turn = look(watch())
    assert [one.value for one in turn.results] == [("t", 0, False), ("t", 1, False)]
    assert {one.timestamp for one in turn.results} == {MIN_TIMESTAMP}
    assert 2.5 < turn.resume <= 3


def test_what_is_made_later_is_new_and_found_once(kafka, watch):
    kafka.topic("t")
    dofn = watch()
    first = look(dofn)
    kafka.topic("t", 3)
    second = look(dofn, first)
    assert [one.value for one in second.results] == [("t", 1, True), ("t", 2, True)]
    assert look(dofn, second).results == []


def test_new_topics_that_match_are_found_though_there_were_none_at_first(kafka, watch):
    dofn = watch((), "new.*")
    first = look(dofn)
    assert first.results == []
    kafka.topic("new-1")
    kafka.topic("renew")
    (found,) = look(dofn, first).results
    assert found.value == ("new-1", 0, True)


def test_new_partitions_hold_the_watermark_where_it_was_before(kafka, watch):
    kafka.topic("t")
    dofn = watch()
    before = time.time()
    first = look(dofn)
    assert before - 2.01 <= float(first.watermark) <= time.time() - 2
    kafka.topic("t", 2)
    (found,) = look(dofn, first).results
    assert found.timestamp == first.watermark


@pytest.mark.parametrize("tell", [True, False], ids=["told", "not told"])
def test_records_of_a_partition_that_is_new_are_not_late_though_the_workers_clock_is_ahead(
    kafka, watch, worker, tell
):
    worker.ahead = 600.0
    kafka.now = kafka.now if tell else None
    kafka.topic("t")
    kafka.put("t", 0, b"live", time=int(worker.right_time() * 1000))
    first = look(watch())
    assert worker.right_time() - 12 <= first.watermark <= worker.right_time() - 2


def test_a_broker_that_is_away_is_asked_again(kafka, watch, caplog):
    kafka.topic("t")
    dofn = watch()
    first = look(dofn)
    kafka.away = True
    end = time.monotonic() + 20
    turn = first
    while "could not be asked for" not in caplog.text:
        turn = process(dofn, b"", turn.residual, turn.watermark)
        assert turn.results == []
        assert turn.resume < 1
        assert time.monotonic() < end
    kafka.away = False
    kafka.topic("t", 2)
    assert len(look(dofn, turn).results) == 1


def test_a_topic_that_is_not_there_is_an_error(kafka, watch):
    with pytest.raises(KafkaRefused, match="no topic 't'"):
        look(watch())


def test_what_was_found_in_a_bundle_that_is_split_is_not_found_again(kafka, watch):
    kafka.topic("t", 2)
    dofn = watch()
    turn = look(dofn, stop_after=1)
    assert len(turn.results) == 2
    assert look(dofn, turn).results == []


def test_what_was_not_claimed_is_found_next_time(kafka, watch):
    kafka.topic("t", 2)
    dofn = watch()
    turn = look(dofn, claims=0)
    assert turn.results == []
    assert len(look(dofn, turn).results) == 2


def test_a_drained_job_looks_for_nothing_new(watch):
    assert provider_of(watch()).truncate(b"", Known()) is None


def test_a_bounded_read_takes_what_is_there_and_no_partition_without_an_offset(kafka):
    kafka.topic("t", 3)
    offsets = Position("offsets", offsets=((Partition("t", 1), 5),))
    dofn = FindPartitions(WANTED, Topics(("t",), None, (offsets, None)))
    dofn.setup()
    assert list(dofn.process(b"")) == [("t", 1, False)]
    dofn.teardown()
    assert kafka.opened == kafka.closed == 1


@given(partitions, st.booleans())
def test_what_is_known_comes_out_of_its_coder_as_it_went_in(some, begun):
    known = Known(some, begun)
    assert KnownCoder().decode(KnownCoder().encode(known)) == known
