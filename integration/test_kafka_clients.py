"""Both client libraries do the same with a real broker."""

from __future__ import annotations

import time

import pytest
from kafka import KafkaProducer
from kafka_broker import KafkaBroker
from kafka_topics import CLIENTS, PATIENCE_SECONDS, Topics, batches

from sparkdrain.io.kafka.choose import open_client
from sparkdrain.io.kafka.client import LostRecords, Partition
from sparkdrain.io.kafka.errors import (
    KafkaDataLost,
    KafkaFailed,
    KafkaRefused,
    KafkaUnreachable,
    KafkaWriteFailed,
)
from sparkdrain.io.kafka.settings import settings

pytestmark = pytest.mark.slow

NAME, WORD = "$ConnectionString", "Endpoint=sb://here/;SharedAccessKey=secret="


@pytest.fixture(scope="module")
def broker():
    with KafkaBroker(users={NAME: WORD}) as running:
        yield running


@pytest.fixture(scope="module")
def topics(broker):
    return Topics(broker.address)


@pytest.fixture(params=CLIENTS)
def library(request):
    return request.param


@pytest.fixture
def opened():
    """Closes what it is given after the test."""
    things = []

    def keep(thing):
        things.append(thing)
        return thing

    yield keep
    for thing in things:
        thing.close()


def everything(records, partition, end):
    found = list(batches(records, partition, end))
    columns = ("offsets", "times", "keys", "values", "headers")
    return [[one for batch in found for one in getattr(batch, name)] for name in columns]


def lost_records(records):
    end = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < end:
        found = list(records.poll(0.1, 1000))
        if found:
            return found
    pytest.fail("nothing came")


@pytest.mark.parametrize("writer", CLIENTS)
@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_what_one_client_writes_the_other_reads(topics, opened, library, writer, compression):
    topic = topics.make()
    headers = (("h", b"x"), ("h", b"y"))
    sent = [(0, b"key", b"value" * 99, headers, 1000), (0, None, b"v", (), 2000)]
    sent.append((0, b"deleted", None, (), 3000))
    topics.write(topic, sent, library=writer, compression_type=compression)
    records = opened(topics.client(library).records(headers=True))
    at = Partition(topic, 0)
    records.follow(at, 0)
    assert everything(records, at, 3) == [
        [0, 1, 2],
        [1000, 2000, 3000],
        [b"key", None, b"deleted"],
        [b"value" * 99, b"v", None],
        [headers, (), ()],
    ]
    assert records.end(at) == 3


def test_both_clients_choose_the_same_partition_for_a_key(topics, opened, library):
    topic = topics.make(5)
    sink = opened(topics.client(library).sink(tell=True))
    assert sink.partitions(topic) == 5
    where = {}
    for number in range(20):
        sink.send(topic, None, b"key-%d" % number, b"", (), None)
        (sent,) = sink.flush()
        where[number] = sent.partition.number
    assert len(set(where.values())) == 5
    other = {"kafka-python": "confluent-kafka", "confluent-kafka": "kafka-python"}[library]
    second = opened(topics.client(other).sink(tell=True))
    for number in range(20):
        second.send(topic, None, b"key-%d" % number, b"", (), None)
        (sent,) = second.flush()
        assert sent.partition.number == where[number]


def test_questions_are_answered(topics, opened, library):
    topic = topics.make(2)
    topics.write(topic, [(0, None, b"%d" % n, (), 1000 * n) for n in range(1, 5)])
    topics.delete_before(topic, 1)
    catalog = opened(topics.client(library, group_id=f"g-{topic}").catalog())
    first, second = both = [Partition(topic, 0), Partition(topic, 1)]
    assert catalog.partitions([topic], None) == both
    assert catalog.partitions((), topic.replace("-", ".")) == both
    assert catalog.partitions((), "nothing-like-it") == []
    assert [catalog.earliest(one) for one in both] == [1, 0]
    assert catalog.latest(both) == {first: 4, second: 0}
    assert [catalog.at_time(one, 2500) for one in both] == [2, None]
    assert [catalog.at_time(one, 10_000_000) for one in both] == [None, None]
    assert [catalog.committed(one) for one in both] == [None, None]
    catalog.commit({first: 3})
    assert [catalog.committed(one) for one in both] == [3, None]
    with pytest.raises(KafkaRefused, match="has no topic 'missing'"):
        catalog.partitions([topic, "missing"], None)


def test_reading_goes_where_it_is_told_to(topics, opened, library):
    topic = topics.make(2)
    topics.write(topic, [(n % 2, None, b"%d" % n) for n in range(100)])
    records = opened(topics.client(library).records(headers=False))
    first, second = Partition(topic, 0), Partition(topic, 1)
    records.follow(first, 40)
    assert everything(records, first, 50)[3] == [b"%d" % n for n in range(80, 100, 2)]
    records.follow(second, 48)
    records.follow(first, 45)
    found = {first: [], second: []}
    end = time.monotonic() + PATIENCE_SECONDS
    while sum(map(len, found.values())) < 7:
        assert time.monotonic() < end
        for batch in records.poll(0.1, 1000):
            found[batch.partition] += batch.offsets
    assert found == {first: [45, 46, 47, 48, 49], second: [48, 49]}
    records.leave(second)
    assert records.end(second) is None


def test_a_paused_partition_hands_out_nothing_until_it_is_resumed(topics, opened, library):
    topic = topics.make(2)
    records = opened(topics.client(library).records(headers=False))
    first, second = Partition(topic, 0), Partition(topic, 1)
    records.follow(first, 0)
    records.follow(second, 0)
    records.pause(first)
    topics.write(topic, [(0, None, b"a"), (1, None, b"b")])
    assert everything(records, second, 1)[3] == [b"b"]
    records.resume(first)
    assert everything(records, first, 1)[3] == [b"a"]


def test_transactions_are_read_up_to_their_marks_once_they_are_committed(topics, opened, library):
    topic = topics.make()
    producer = opened(KafkaProducer(bootstrap_servers=topics.address, transactional_id=topic))
    producer.init_transactions()
    for kept in (True, False):
        producer.begin_transaction()
        producer.send(topic, b"kept" if kept else b"dropped")
        producer.flush()
        producer.commit_transaction() if kept else producer.abort_transaction()
    records = opened(
        topics.client(library, isolation_level="read_committed").records(headers=False)
    )
    at = Partition(topic, 0)
    records.follow(at, 0)
    found = list(batches(records, at, 4))
    assert [value for batch in found for value in batch.values] == [b"kept"]
    assert found[-1].after == 4


def test_offsets_that_are_not_there_are_an_error(topics, opened, library):
    topic = topics.make()
    topics.write(topic, [(0, None, b"a"), (0, None, b"b")])
    topics.delete_before(topic, 1)
    for offset in (0, 99):
        records = opened(topics.client(library).records(headers=False))
        records.follow(Partition(topic, 0), offset)
        (lost,) = lost_records(records)
        assert lost.partition == Partition(topic, 0)
        assert isinstance(lost.error, KafkaDataLost)


def test_records_that_are_lost_are_told_of_their_partition_and_the_others_come(
    topics, opened, library
):
    topic = topics.make(3)
    topics.write(topic, [(n % 3, None, b"%d" % n) for n in range(30)])
    topics.delete_before(topic, 1)
    topics.delete_before(topic, 1, number=1)
    records = opened(topics.client(library).records(headers=False))
    lost, whole = [Partition(topic, 0), Partition(topic, 1)], Partition(topic, 2)
    for partition in (*lost, whole):
        records.follow(partition, 1 if partition is whole else 0)
    told, found = {}, []
    end = time.monotonic() + PATIENCE_SECONDS
    while len(told) < len(lost) or len(found) < 9:
        assert time.monotonic() < end, (told, found)
        for batch in records.poll(0.1, 1000):
            if isinstance(batch, LostRecords):
                told[batch.partition] = batch.error
                records.leave(batch.partition)
            else:
                assert batch.partition == whole
                found += batch.offsets
    assert found == list(range(1, 10))
    assert told.keys() == set(lost)
    assert all(isinstance(error, KafkaDataLost) for error in told.values())


def test_records_that_are_too_large_are_an_error(topics, opened, library):
    topic = topics.make(**{"max.message.bytes": "1000"})
    sink = opened(topics.client(library).sink(tell=False))
    sink.send(topic, 0, None, b"x" * 5000, (), None)
    with pytest.raises(KafkaWriteFailed, match=r"1 records were not written by way of 127\.0"):
        sink.flush()
    again = opened(topics.client(library).sink(tell=False))
    again.send(topic, 0, None, b"fits", (), None)
    again.flush()
    assert topics.read(topic) == [b"fits"]


def signed_in(broker, library, word, **more):
    config = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": NAME,
        "sasl.password": word,
        **more,
    }
    return open_client(settings(broker.users_address, config, library, "config"))


def test_a_connection_string_signs_in_as_at_event_hubs(broker, topics, opened, library):
    topic = topics.make()
    client = signed_in(broker, library, WORD)
    sink = opened(client.sink(tell=True))
    sink.send(topic, 0, b"k", b"v", (), None)
    assert sink.flush()[0].last == 0
    records = opened(client.records(headers=False))
    records.follow(Partition(topic, 0), 0)
    assert everything(records, Partition(topic, 0), 1)[3] == [b"v"]
    assert opened(client.catalog()).partitions([topic], None) == [Partition(topic, 0)]


def test_a_wrong_password_is_told(broker, topics, library):
    # kafka-python only learns that nobody answers.
    more = {"bootstrap_timeout_ms": 3000} if library == "kafka-python" else {}
    with pytest.raises((KafkaRefused, KafkaUnreachable), match=broker.users_address) as failed:
        signed_in(broker, library, "wrong", **more).catalog().partitions(["any"], None)
    assert "assword" in str(failed.value) or "uthentication" in str(failed.value)
    assert isinstance(failed.value, KafkaFailed)
