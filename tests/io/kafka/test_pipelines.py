"""Kafka in pipelines: bounded, in rounds that fail, drained, with what comes while they run."""

from __future__ import annotations

import json
import threading
from collections import Counter

import apache_beam as beam
import pytest
from apache_beam import coders
from apache_beam.portability.api import metrics_pb2
from apache_beam.transforms.window import FixedWindows

from sparkdrain.errors import BadOption, NotAcknowledged
from sparkdrain.io.kafka import (
    BadRecord,
    KafkaRecord,
    ReadFromKafka,
    UnreadableRecord,
    Watermarks,
    WriteToKafka,
)
from sparkdrain.io.kafka.client import Partition
from tests.support.drained import request
from tests.support.recorded import emitted, emitted_in_batch
from tests.support.restrictions import LeapingClock
from tests.support.undoing import ATTEMPTS, undoing


def fill(kafka, topic="t", partitions=3, records=100, first=0):
    kafka.topic(topic, partitions)
    for number in range(first, first + records):
        kafka.put(topic, number % partitions, b"%d" % number, key=b"k", time=number * 10)


def values(pairs):
    return sorted(int(value) for _, value in pairs)


def read(**settings):
    settings = {"watermarks": Watermarks(1.0, None), "discover_every": 0.2, **settings}
    return ReadFromKafka("fake", settings.pop("topics", "t"), **settings)


class Until:
    """Drains a job when enough came out of it; tells the test about each round before."""

    def __init__(self, enough, each_round=lambda number: None):
        self.enough = enough if callable(enough) else lambda seen: seen >= enough
        self.each_round = each_round

    def __call__(self, rounds):
        tell = rounds.loop.tell
        seen = 0

        def look(schedule, reports):
            nonlocal seen
            tell(schedule, reports)
            seen += len(rounds.kept[-1])
            self.each_round(schedule.number)
            if self.enough(seen):
                request(rounds)

        rounds.loop.tell = look


def losing(chance, seed=7):
    return undoing(seed, chance)


@pytest.mark.parametrize("streaming", [False, True])
def test_a_bounded_read_waits_for_what_is_to_come(kafka, streaming):
    fill(kafka, partitions=1, records=5)
    offsets = {("t", 0): 9}
    more = threading.Timer(0.5, fill, [kafka], {"partitions": 1, "records": 5, "first": 5})
    more.start()
    run = emitted if streaming else emitted_in_batch
    assert values(run(lambda p: p | read(stop=offsets))) == list(range(9))
    more.join()


@pytest.mark.parametrize("streaming", [False, True])
def test_a_bounded_read_gives_what_is_there(kafka, streaming):
    fill(kafka)
    run = emitted if streaming else emitted_in_batch
    assert values(run(lambda p: p | read(stop="latest"))) == list(range(100))


def test_a_large_partition_is_read_in_parts(kafka, monkeypatch):
    monkeypatch.setattr("sparkdrain.io.kafka.spans._PART", 16)
    fill(kafka, partitions=2)
    assert values(emitted_in_batch(lambda p: p | read(stop="latest"))) == list(range(100))


def test_only_what_was_asked_for_is_read(kafka):
    fill(kafka, partitions=1)
    between = emitted_in_batch(lambda p: p | read(start={("t", 0): 5}, stop={("t", 0): 9}))
    assert values(between) == [5, 6, 7, 8]


@pytest.mark.parametrize("chance", [0, 0.3])
def test_what_is_lost_of_partitions_is_passed_over_and_told_and_the_others_are_read(
    kafka, chance, caplog
):
    fill(kafka, partitions=3, records=300)
    kafka.delete_before("t", 1, 40)
    kafka.delete_before("t", 2, 40)
    reading = read(start={("t", number): 0 for number in range(3)}, on_lost="skip")
    out = emitted(lambda p: p | reading, begin=Until(220), fail=losing(chance), attempts=ATTEMPTS)
    assert values(out) == [n for n in range(300) if n % 3 == 0 or n // 3 >= 40]
    for number in (1, 2):
        assert f"t[{number}]: offsets 0 to 39 are gone" in caplog.text


def test_an_unbounded_read_goes_on_until_it_is_drained(kafka):
    fill(kafka)
    out = emitted(lambda p: p | read(), begin=Until(100))
    assert values(out) == list(range(100))


def test_rounds_that_fail_neither_lose_nor_repeat_a_record(kafka):
    fill(kafka, records=1200)
    out = emitted(lambda p: p | read(), begin=Until(1200), fail=losing(0.3), attempts=ATTEMPTS)
    assert values(out) == list(range(1200))


def test_what_was_not_claimed_when_the_job_was_drained_is_left(kafka):
    fill(kafka, records=4000)
    out = emitted(lambda p: p | read(), begin=Until(1), seconds=0.002, elements=5)
    found = values(out)
    assert 0 < len(found) < 4000
    assert len(set(found)) == len(found)
    for number in range(3):
        # No holes: of each partition the first ones.
        own = [value for value in found if value % 3 == number]
        assert own == list(range(number, number + 3 * len(own), 3))


def test_partitions_and_topics_that_are_made_while_it_runs_are_read_from_their_beginning(kafka):
    fill(kafka, "t-1", partitions=1, records=10)

    def more(number):
        if number == 3:
            fill(kafka, "t-1", partitions=2, records=10, first=10)
        if number == 5:
            fill(kafka, "t-2", partitions=1, records=10, first=20)

    reading = read(topics=None, pattern="t-.*", discover_every=0.01)
    out = emitted(lambda p: p | reading, begin=Until(30, more))
    assert values(out) == list(range(30))


def test_records_carry_their_metadata_through_a_pipeline(kafka):
    kafka.topic("t")
    kafka.put("t", 0, b"v", key=b"k", time=1500, headers=(("h", b"x"), ("n", None)))
    kafka.put("t", 0, None, time=1600)
    out = emitted_in_batch(lambda p: p | read(stop="latest", with_metadata=True) | Reshuffled())
    assert sorted(out) == [
        KafkaRecord("t", 0, 0, 1500, b"k", b"v", (("h", b"x"), ("n", None))),
        KafkaRecord("t", 0, 1, 1600, None, None, ()),
    ]


class Reshuffled(beam.PTransform):
    def expand(self, elements):
        return elements | beam.Reshuffle()


def test_records_that_cannot_be_decoded_go_their_own_way(kafka):
    kafka.topic("t")
    kafka.put("t", 0, b"fine", b"\xff", b"too")

    def build(p):
        text = coders.StrUtf8Coder()
        reading = read(stop="latest", value_coder=text).with_exception_handling()
        good, bad = p | reading
        return (good, bad | Reshuffled()) | beam.Flatten()

    out = emitted_in_batch(build)
    (bad,) = (one for one in out if isinstance(one, BadRecord))
    assert (bad.offset, bad.value) == (1, b"\xff")
    assert sorted(one for one in out if one is not bad) == [(None, "fine"), (None, "too")]


def test_a_record_that_cannot_be_decoded_fails_the_job_with_its_place(kafka):
    kafka.topic("t")
    kafka.put("t", 0, b"\xff")
    with pytest.raises(Exception, match=r"record at t\[0\], offset 0, cannot be decoded") as failed:
        emitted_in_batch(lambda p: p | read(stop="latest", value_coder=coders.StrUtf8Coder()))
    assert any(isinstance(one, UnreadableRecord) for one in (failed.value, failed.value.__cause__))


def test_offsets_are_committed_with_the_rounds(kafka):
    fill(kafka)
    config = {"group.id": "g"}
    reading = read(commit_offsets=True, consumer_config=config)
    emitted(lambda p: p | reading, begin=Until(100))
    assert kafka.groups == {at: log.latest for at, log in kafka.logs.items()}
    fill(kafka, first=100, records=9)
    again = read(start="committed", stop="latest", consumer_config=config)
    assert values(emitted_in_batch(lambda p: p | again)) == list(range(100, 109))


@pytest.mark.parametrize("lost", [1, 100])
def test_a_drained_job_is_over_when_its_offsets_are_committed_and_fails_if_they_cannot_be(
    kafka, lost
):
    """Else a new version would read again what this one has read."""
    fill(kafka)
    kafka.lost_commits = lost
    reading = read(commit_offsets=True, consumer_config={"group.id": "g"})
    how = {"begin": Until(100), "clock": LeapingClock()}
    if lost == 1:
        emitted(lambda p: p | reading, **how)
        assert kafka.groups == {at: log.latest for at, log in kafka.logs.items()}
    else:
        with pytest.raises(NotAcknowledged, match=r"t\[\d\]: .*the coordinator is loading"):
            emitted(lambda p: p | reading, **how)


class AsRecord(beam.DoFn):
    def process(self, counted, window=beam.DoFn.WindowParam):
        key, count = counted
        line = json.dumps([key, float(window.start), count])
        yield None, line.encode()


def counts(pipeline):
    return (
        pipeline
        | read()
        | beam.Map(lambda pair: int(pair[1]) % 5)
        | beam.WindowInto(FixedWindows(2))
        | beam.combiners.Count.PerElement()
        | beam.ParDo(AsRecord())
        | WriteToKafka("fake", "out", with_results=True)
    )


def expected(records):
    found = Counter((number % 5, number * 10 // 2000 * 2.0) for number in range(records))
    return {(key, start, count) for (key, start), count in found.items()}


@pytest.mark.parametrize("chance", [0, 0.2])
def test_counts_of_windows_go_back_to_kafka_at_least_once(kafka, chance):
    kafka.topic("out", 2)
    fill(kafka, records=600)
    for number in range(3):
        kafka.put("t", number, b"0", time=60_000)  # what closes the windows before it

    def found():
        lines = [tuple(json.loads(value)) for value in kafka.values("out")]
        return [line for line in lines if line[1] < 60]

    until = Until(lambda _: len(set(found())) >= len(expected(600)))
    emitted(counts, begin=until, fail=losing(chance), attempts=ATTEMPTS)
    assert set(found()) == expected(600)
    assert chance or len(found()) == len(expected(600))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"pattern": "a.*"}, "either topics= or pattern="),
        ({"topics": ()}, "either topics= or pattern="),
        ({"start": "committed"}, "group.id"),
        ({"commit_offsets": True}, "group.id"),
        ({"stop": "earliest"}, "stop='earliest' is no end"),
        ({"on_lost": "shrug"}, "on_lost='shrug'"),
        ({"discover_every": 0}, "discover_every=0"),
        ({"start": "begin"}, "start='begin'"),
    ],
)
def test_arguments_that_make_no_sense_are_refused_when_the_pipeline_is_built(settings, message):
    with pytest.raises(BadOption, match=message):
        read(**settings)


def test_lag_and_counts_are_metrics(kafka):
    fill(kafka)
    found = {}

    def watch(rounds):
        for report in (report for reports in rounds.rounds for report in reports):
            for data in report.metrics:
                info = metrics_pb2.MonitoringInfo.FromString(data)
                found[info.labels["NAME"]] = info.type

    emitted(lambda p: p | read(), begin=Until(100), watch=watch)
    assert "records_read" in found
    assert found[f"lag.{Partition('t', 0)}"].endswith("latest_int64:v1")
