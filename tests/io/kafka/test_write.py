"""A bundle ends when the brokers have its records, and fails if they do not take them."""

from __future__ import annotations

import apache_beam as beam
import pytest
from apache_beam import coders
from apache_beam.transforms.window import FixedWindows, TimestampedValue

from sparkdrain.errors import BadOption
from sparkdrain.io.kafka import KafkaWriteFailed, ProducerRecord, WriteToKafka, Written
from sparkdrain.io.kafka.client import Partition
from sparkdrain.io.kafka.encoding import Encoding
from sparkdrain.io.kafka.settings import Settings
from sparkdrain.io.kafka.write import Send
from tests.support.in_memory import run_in_memory
from tests.support.recorded import emitted_in_batch

PAIRS = [(b"k%d" % number, b"v%d" % number) for number in range(20)]


def stored(kafka, topic):
    return [
        record
        for at, log in sorted(kafka.logs.items())
        if at.topic == topic
        for record in log.records
    ]


def write(elements, *args, **settings):
    p = beam.Pipeline()
    _ = p | beam.Create(elements) | WriteToKafka("fake", *args, **settings)
    run_in_memory(p)


def test_pairs_are_written_as_they_are(kafka):
    kafka.topic("out", 3)
    write([*PAIRS, (None, b"no key"), (b"no value", None)], "out")
    found = {(record.key, record.value) for record in stored(kafka, "out")}
    assert found == {*PAIRS, (None, b"no key"), (b"no value", None)}


def test_records_say_where_they_go_and_what_goes_with_them(kafka):
    kafka.topic("out")
    kafka.topic("other", 4)
    record = ProducerRecord(b"k", b"v", "other", 2, 1234, (("h", b"x"), ("n", None)))
    write([record, ProducerRecord(b"k", b"w")], "out")
    (found,) = kafka.logs[Partition("other", 2)].records
    assert (found.time, found.headers) == (1234, (("h", b"x"), ("n", None)))
    assert kafka.values("out") == [b"w"]


def test_keys_and_values_are_encoded_but_for_nulls(kafka):
    kafka.topic("out")
    write(
        [("ä", 7), (None, None)],
        "out",
        key_coder=coders.StrUtf8Coder(),
        value_coder=coders.VarIntCoder(),
    )
    found = {(record.key, record.value) for record in stored(kafka, "out")}
    assert found == {("ä".encode(), b"\7"), (None, None)}


def test_a_partitioner_sees_key_and_number_of_partitions(kafka):
    kafka.topic("out", 3)
    write(PAIRS, "out", partitioner=lambda key, partitions: int(key[1:]) % partitions)
    assert {r.key for r in kafka.logs[Partition("out", 1)].records} == {
        key for key, _ in PAIRS if int(key[1:]) % 3 == 1
    }


def test_records_have_the_time_of_their_elements_if_that_is_wanted(kafka):
    kafka.topic("out")
    p = beam.Pipeline()
    timed = p | beam.Create([5, 6]) | beam.Map(lambda n: TimestampedValue((b"k", b"v"), n))
    _ = timed | WriteToKafka("fake", "out", event_time=True)
    run_in_memory(p)
    assert sorted(record.time for record in stored(kafka, "out")) == [5000, 6000]


def test_results_tell_how_much_was_written_where(kafka):
    kafka.topic("out", 2)

    def build(p):
        window = beam.WindowInto(FixedWindows(1))
        return p | beam.Create(PAIRS) | window | WriteToKafka("fake", "out", with_results=True)

    seen = emitted_in_batch(build)
    assert all(isinstance(one, Written) for one in seen)
    assert sum(one.records for one in seen) == len(PAIRS)
    for at, log in kafka.logs.items():
        of_it = [one.last_offset for one in seen if one.partition == at.number]
        assert max(of_it) == log.latest - 1


def sender(**settings):
    dofn = Send(Settings("fake"), Encoding("out", None, None), **settings)
    dofn.setup()
    return dofn


def bundle(dofn, *elements):
    dofn.start_bundle()
    for element in elements:
        dofn.process(element)
    return list(dofn.finish_bundle())


def test_a_bundle_fails_if_brokers_do_not_take_its_records(kafka):
    kafka.topic("out")
    dofn = sender()
    kafka.refuses = "too large"
    with pytest.raises(KafkaWriteFailed, match="too large"):
        bundle(dofn, (b"k", b"1"))
    kafka.refuses = None
    bundle(dofn, (b"k", b"2"))
    assert kafka.values("out") == [b"2"]
    dofn.teardown()
    assert kafka.opened == kafka.closed == 2


def test_what_a_bundle_has_sent_that_was_given_up_is_not_part_of_the_next_one(kafka):
    kafka.topic("out")
    dofn = sender()
    dofn.start_bundle()
    dofn.process((b"k", b"given up"))
    bundle(dofn, (b"k", b"fine"))
    assert kafka.values("out") == [b"fine"]


def test_a_producer_serves_many_bundles(kafka):
    kafka.topic("out")
    dofn = sender()
    for number in range(3):
        bundle(dofn, (b"k", b"%d" % number))
    assert kafka.values("out") == [b"0", b"1", b"2"]
    assert kafka.opened == 1


@pytest.mark.parametrize(
    ("element", "message"),
    [
        (("text", b""), "the key 'text' is str, not bytes: pass key_coder="),
        ((b"", 7), "the value 7 is int, not bytes: pass value_coder="),
        (7, "takes pairs of key and value, or ProducerRecord: 7"),
    ],
)
def test_an_element_that_is_no_record_says_what_to_do(element, message):
    with pytest.raises(KafkaWriteFailed, match=message):
        Encoding("out", None, None).record(element)


def test_a_record_without_a_topic_says_so():
    with pytest.raises(KafkaWriteFailed, match="no topic for ProducerRecord"):
        Encoding(None, None, None).record(ProducerRecord(b"", b""))
    with pytest.raises(BadOption, match="topic is empty"):
        WriteToKafka("fake", "")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"groups": 4}, "groups is for exactly_once"),
        ({"exactly_once": " ", "topic": "t"}, "exactly_once is blank"),
        ({"exactly_once": "a"}, "exactly_once needs topic"),
        ({"exactly_once": "a", "topic": "t", "groups": 0}, "groups is 0"),
        ({"exactly_once": "a", "topic": "t", "with_results": True}, "with_results does not go"),
        ({"exactly_once": "a", "topic": "t", "partitioner": hash}, "partitioner does not go"),
    ],
)
def test_what_does_not_go_with_exactly_once_is_refused(given, said):
    with pytest.raises(BadOption, match=said):
        WriteToKafka("localhost:9092", **given)
