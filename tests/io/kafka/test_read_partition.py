"""A partition is read once, in order, however it is interrupted; it says how far it is."""

from __future__ import annotations

import itertools
import logging
import time

import pytest
from apache_beam.io.restriction_trackers import OffsetRange
from apache_beam.utils.timestamp import Timestamp
from fake_kafka import FakeKafka
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from one_by_one import process

from sparkdrain.io.kafka import choose
from sparkdrain.io.kafka.choose import KafkaService
from sparkdrain.io.kafka.client import Partition
from sparkdrain.io.kafka.errors import KafkaDataLost
from sparkdrain.io.kafka.positions import EARLIEST, LATEST
from sparkdrain.io.kafka.read_partition import ClaimSize, reader
from sparkdrain.io.kafka.settings import Settings
from sparkdrain.io.kafka.shared import Wanted
from sparkdrain.io.kafka.spans import NO_END, SpansOf
from sparkdrain.io.kafka.watermarks import Watermarks

WANTED = Wanted(KafkaService(Settings("fake")), headers=True, reader="test")
FIRST = ("t", 0, False)


@pytest.fixture
def dofn(kafka, request):
    """Makes a reader that is set up; it is torn down after the test."""
    made = []

    def make(*, start=EARLIEST, stop=None, watermarks=None, commit=False, skip_lost=False):
        spans = SpansOf(WANTED, start, stop)
        one = reader(
            WANTED,
            spans,
            watermarks or Watermarks(),
            bounded=stop is not None,
            commit=commit,
            skip_lost=skip_lost,
        )
        one.setup()
        made.append(one)
        return one

    yield make
    for one in made:
        one.teardown()
    assert kafka.opened == kafka.closed


def numbers(count):
    return [b"%d" % number for number in range(count)]


def test_what_is_there_is_read_and_the_rest_is_put_off(kafka, dofn):
    kafka.topic("t")
    kafka.put("t", 0, b"a", b"b", None)
    turn = process(dofn(), FIRST)
    assert turn.records() == [(0, b"a"), (1, b"b"), (2, None)]
    assert (turn.residual.start, turn.residual.stop) == (3, NO_END)
    assert 0 < turn.resume < 0.1


def test_a_quiet_partition_is_asked_for_more_rarely_and_holds_nobody_up(kafka, dofn):
    kafka.topic("t")
    reading = dofn()
    turn = process(reading, FIRST)
    reading._shared.intake._lines[Partition("t", 0)].newest -= 1
    assert 0.2 < process(reading, FIRST, turn.residual).resume < 0.3
    reading._shared.intake._lines[Partition("t", 0)].newest -= 100
    assert process(reading, FIRST, turn.residual).resume <= 0.5


def test_reading_goes_on_behind_offsets_that_have_no_record(kafka, dofn):
    kafka.topic("t")
    kafka.put("t", 0, b"a")
    kafka.skip("t", 0, 4)
    reading = dofn()
    turn = process(reading, FIRST)
    kafka.put("t", 0, b"b")
    assert process(reading, FIRST, turn.residual).records() == [(5, b"b")]
    assert kafka.follows == 1


def test_a_bounded_read_ends_though_its_last_offsets_have_no_record(kafka, dofn):
    kafka.topic("t")
    kafka.put("t", 0, *numbers(10))
    kafka.skip("t", 0, 3)
    turn = process(dofn(stop=LATEST), FIRST)
    assert turn.records() == list(enumerate(numbers(10)))
    assert turn.residual is None


def test_a_bounded_read_does_not_see_what_comes_later(kafka, dofn):
    kafka.topic("t")
    kafka.put("t", 0, *numbers(5))
    reading = dofn(stop=LATEST)
    restriction = OffsetRange(0, 5)
    kafka.put("t", 0, b"late")
    assert process(reading, FIRST, restriction).records() == list(enumerate(numbers(5)))


def test_nothing_to_read_is_no_work(kafka, dofn):
    kafka.topic("t")
    assert process(dofn(stop=LATEST), FIRST).results == []


def test_the_watermark_trails_behind_the_newest_record(kafka, dofn):
    kafka.topic("t")
    kafka.put("t", 0, b"new", time=100_000)
    kafka.put("t", 0, b"old", time=98_000)
    turn = process(dofn(watermarks=Watermarks(3.0, None)), FIRST)
    assert turn.watermark == Timestamp(97)
    (batch,) = turn.results
    assert batch.timestamp == Timestamp(98)


def test_what_is_split_off_while_records_are_on_their_way_knows_their_watermark(kafka, dofn):
    """Else a partition into which nothing more is written would hold everything up."""
    kafka.topic("t")
    kafka.put("t", 0, b"last", time=100_000)
    turn = process(dofn(watermarks=Watermarks(3.0, None)), FIRST, stop_after=1)
    assert turn.residual.start == 1
    assert turn.watermark == Timestamp(97)


def test_what_is_split_off_behind_a_claim_finds_the_watermark_that_it_led_to(kafka, dofn):
    kafka.topic("t")
    kafka.put("t", 0, b"last", time=100_000)
    reading = dofn(watermarks=Watermarks(3.0, None))
    turn = process(reading, FIRST, stop_behind_claims=1)
    assert (turn.records(), turn.residual.start) == ([(0, b"last")], 1)
    assert turn.watermark is None
    assert process(reading, FIRST, turn.residual, turn.watermark).watermark == Timestamp(97)


def test_the_watermark_of_other_records_is_nobody_elses(kafka, dofn):
    kafka.topic("t")
    kafka.put("t", 0, b"first", b"last", time=100_000)
    reading = dofn(watermarks=Watermarks(3.0, None))
    assert process(reading, FIRST).watermark == Timestamp(97)
    kafka.delete_before("t", 0, 2)
    kafka.skip("t", 0)
    assert process(reading, FIRST, OffsetRange(3, NO_END)).watermark is None


def until(reading, turn, condition):
    """Goes on reading until ``condition``; the broker is asked in another thread."""
    end = time.monotonic() + 20
    while not condition(turn):
        assert time.monotonic() < end, turn
        turn = process(reading, FIRST, turn.residual, turn.watermark)
    return turn


def test_an_idle_partition_follows_the_clock_at_a_distance(kafka, dofn):
    kafka.topic("t")
    reading = dofn(watermarks=Watermarks(2.0, 7.0))
    before = time.time()
    turn = until(reading, process(reading, FIRST), lambda turn: turn.watermark is not None)
    assert kafka.hours == 1
    assert before - 7.1 <= float(turn.watermark) <= time.time() - 7


@pytest.mark.parametrize("tell", [True, False], ids=["told", "not told"])
@pytest.mark.parametrize("ahead", [-600.0, 0.0, 600.0])
def test_a_worker_whose_clock_is_wrong_makes_no_record_late_and_time_goes_on(
    kafka, dofn, worker, ahead, tell
):
    """The partition is idle; another one, which another worker reads, is written to."""
    worker.ahead = ahead
    kafka.now = kafka.now if tell else None
    kafka.topic("t", 2)
    kafka.put("t", 1, b"live", time=int(worker.right_time() * 1000))
    reading = dofn(watermarks=Watermarks(2.0, 7.0))
    turn = until(reading, process(reading, FIRST), lambda turn: turn.watermark is not None)
    first = turn.watermark
    assert first <= worker.right_time() - 7
    worker.skip(100)
    turn = until(reading, turn, lambda turn: turn.watermark >= first + 80)
    assert turn.watermark <= worker.right_time() - 7
    if tell or ahead >= 0:
        assert turn.watermark >= worker.right_time() - 20


def test_a_worker_that_goes_on_with_a_quiet_partition_does_not_begin_at_its_newest_record(
    kafka, dofn, worker
):
    kafka.now = None
    kafka.topic("t")
    kafka.put("t", 0, b"long ago", time=int(worker.right_time() - 3000) * 1000)
    reading = dofn(watermarks=Watermarks(0.0, 0.0))
    begun = Timestamp(worker.right_time() - 60)
    turn = until(reading, process(reading, FIRST, None, begun), lambda turn: turn.watermark > begun)
    assert turn.watermark <= worker.right_time() - 59


def test_an_idle_partition_holds_the_watermark_if_it_is_told_to(kafka, dofn):
    kafka.topic("t")
    reading = dofn(watermarks=Watermarks(2.0, None))
    turn = process(reading, FIRST)
    for _ in range(5):
        turn = process(reading, FIRST, turn.residual, turn.watermark)
    assert turn.watermark is None


def test_a_partition_that_cannot_be_asked_is_not_idle(kafka, dofn):
    kafka.topic("t")
    reading = dofn(watermarks=Watermarks(2.0, 7.0))
    turn = process(reading, FIRST)
    known = until(reading, turn, lambda turn: turn.watermark is not None).watermark
    kafka.away = True
    for _ in range(5):
        turn = process(reading, FIRST, turn.residual, known)
    # What was asked before may still be heard of, but no more than that.
    assert turn.watermark - known < 2


def test_records_without_a_timestamp_are_of_the_time_of_reading(kafka, dofn):
    kafka.topic("t")
    kafka.put("t", 0, b"a", time=-1)
    before = int(time.time() * 1000)
    (batch,) = process(dofn(), FIRST).results
    assert before <= batch.value.times[0] <= time.time() * 1000


def test_offsets_are_committed_once_the_bundle_is_safe(kafka, dofn):
    kafka.topic("t")
    kafka.put("t", 0, *numbers(7))
    reading = dofn(commit=True)
    turn = process(reading, FIRST)
    assert kafka.groups == {}
    for callback in turn.callbacks:
        callback()
    reading._shared.commits.wait(10)
    assert kafka.groups == {Partition("t", 0): 7}
    assert process(reading, FIRST, turn.residual).callbacks == []


def test_an_offset_that_was_to_be_committed_can_be_committed_by_another_process(kafka, dofn):
    kafka.topic("t")
    kafka.put("t", 0, *numbers(7))
    (callback,) = process(dofn(commit=True), FIRST).callbacks
    again = dofn(commit=True).acknowledgement(callback.data)
    assert again.ident == callback.ident == "t[0]"
    assert "fake" not in again.data, "how to connect is a secret, and nothing for a checkpoint"
    again()
    assert again.settle(10)
    assert kafka.groups == {Partition("t", 0): 7}


def test_records_that_were_deleted_before_they_were_read_are_an_error(kafka, dofn):
    kafka.topic("t")
    kafka.put("t", 0, *numbers(9))
    kafka.delete_before("t", 0, 6)
    with pytest.raises(KafkaDataLost) as lost:
        process(dofn(), FIRST, OffsetRange(2, NO_END))
    assert str(lost.value).startswith(
        "t[0]: offset 2 is to be read next, but the first one that there is, is 6, and the next "
        "one will be 9."
    )
    assert "on_lost='skip'" in str(lost.value)


def test_records_that_were_deleted_are_passed_over_if_that_is_wanted(kafka, dofn, caplog):
    kafka.topic("t")
    kafka.put("t", 0, *numbers(9))
    kafka.delete_before("t", 0, 6)
    with caplog.at_level(logging.WARNING):
        turn = process(dofn(skip_lost=True), FIRST, OffsetRange(2, NO_END))
    assert [offset for offset, _ in turn.records()] == [6, 7, 8]
    assert "t[0]: offsets 2 to 5 are gone" in caplog.text


def test_what_is_gone_is_passed_over_once_also_if_there_is_nothing_yet(kafka, dofn):
    kafka.topic("t")
    kafka.put("t", 0, *numbers(4))
    kafka.delete_before("t", 0, 4)
    turn = process(dofn(skip_lost=True), FIRST, OffsetRange(1, NO_END))
    assert turn.records() == []
    assert turn.residual.start == 4
    follows = kafka.follows
    assert process(dofn(skip_lost=True), FIRST, turn.residual).residual.start == 4
    assert kafka.follows <= follows + 1


def test_a_partition_that_was_found_later_is_read_from_its_beginning(kafka, dofn):
    kafka.topic("t")
    kafka.put("t", 0, b"before anybody looked")
    reading = dofn(start=LATEST)
    assert process(reading, FIRST).records() == []
    assert process(reading, ("t", 0, True)).records() == [(0, b"before anybody looked")]


def test_a_slow_consumer_claims_few_records_at_once():
    size = ClaimSize()
    for _ in range(20):
        size.took(0.0001)
    assert size.records == 1024
    for _ in range(20):
        size.took(0.2)
    assert size.records == 1


class Interrupted:
    """The ways in which a runner can interrupt a call."""

    turns = st.lists(
        st.tuples(
            st.one_of(st.none(), st.integers(0, 4)),  # claims
            st.one_of(st.none(), st.integers(1, 3)),  # results, until a split from outside
            st.booleans(),  # whether what was done is undone
            st.integers(0, 40),  # records that arrive
        ),
        max_size=12,
    )


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(Interrupted.turns, st.integers(1, 50), st.lists(st.integers(0, 60), max_size=5))
def test_every_record_is_read_once_however_reading_is_interrupted(turns, most, gaps):
    fake = FakeKafka()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(choose, "open_client", fake.open_client)
        fake.topic("t", 2)
        reading = reader(
            WANTED,
            SpansOf(WANTED, EARLIEST, None),
            Watermarks(0.0, None),
            bounded=False,
            commit=False,
            skip_lost=False,
        )
        reading.setup()
        reading._shared.intake._records.most = most
        restrictions = {n: OffsetRange(0, NO_END) for n in (0, 1)}
        seen = {0: [], 1: []}
        for number, (claims, results, undone, arriving) in enumerate([*turns, *[(None,) * 4] * 2]):
            for _ in range(arriving or 0):
                fake.put("t", number % 2, b"x")
                if fake.logs[Partition("t", number % 2)].latest in gaps:
                    fake.skip("t", number % 2)
            n = number % 2
            restriction = restrictions[n]
            turn = process(reading, ("t", n, False), restriction, claims=claims, stop_after=results)
            if not undone:
                seen[n] += [offset for offset, _ in turn.records()]
                restrictions[n] = turn.residual
        for n in (0, 1):
            process_all = process(reading, ("t", n, False), restrictions[n])
            seen[n] += [offset for offset, _ in process_all.records()]
            assert seen[n] == [one.offset for one in fake.logs[Partition("t", n)].records]
        reading.teardown()


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 80), st.lists(st.integers(0, 80), max_size=4), st.integers(1, 30))
def test_the_parts_of_a_bounded_partition_are_the_whole(count, cuts, most):
    fake = FakeKafka()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(choose, "open_client", fake.open_client)
        fake.topic("t")
        fake.put("t", 0, *numbers(count))
        reading = reader(
            WANTED,
            SpansOf(WANTED, EARLIEST, LATEST),
            Watermarks(),
            bounded=True,
            commit=False,
            skip_lost=False,
        )
        reading.setup()
        reading._shared.intake._records.most = most
        edges = sorted({0, count, *(cut for cut in cuts if cut <= count)})
        seen = []
        for start, stop in itertools.pairwise(edges):
            seen += process(reading, FIRST, OffsetRange(start, stop)).records()
        assert seen == list(enumerate(numbers(count)))
        reading.teardown()
