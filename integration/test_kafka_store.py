"""A real topic of Kafka as a metadata store: the contract, fenced writers, outages, users."""

from __future__ import annotations

import time
import uuid

import pytest
from kafka import KafkaConsumer, KafkaProducer
from kafka.admin import KafkaAdminClient
from kafka_broker import KafkaBroker

from sparkdrain.coordination.backend import StoreReach
from sparkdrain.coordination.backends import kafka as kafka_backend
from sparkdrain.coordination.backends.kafka import CONFIG, KafkaStore
from sparkdrain.coordination.metadata import StoreDown
from sparkdrain.errors import BadSetup
from tests.support.drained_by_store import *  # noqa: F403 - the tests themselves
from tests.support.store_contract import *  # noqa: F403 - the tests themselves
from tests.support.store_contract import StoreOfKind, against_a_dict, value_of, values_of

pytestmark = pytest.mark.slow
NOW: list[KafkaBroker] = []


@pytest.fixture(scope="module", autouse=True)
def broker():
    often = {"log.cleaner.backoff.ms": "200"}
    with KafkaBroker(users={"me": "sesame-1"}, settings=often) as running:
        NOW.append(running)
        yield running
        NOW.clear()


def new_store(_folder=None) -> StoreOfKind:
    return StoreOfKind(f"kafka:{NOW[0].address}/store-{uuid.uuid4().hex}")


@pytest.fixture
def backend():
    return new_store()


TestKafka = against_a_dict(new_store, examples=3)


def test_all_machines_can_open_it(backend):
    assert backend.stores.reach(backend.address) is StoreReach.NETWORK


def test_a_writer_that_stopped_in_the_middle_holds_nobody_up_and_writes_nothing(backend):
    store, paused = KafkaStore(backend.address.place, {}), KafkaStore(backend.address.place, {})
    version = paused.put("a", "k", b"1")
    paused._producer.begin_transaction()
    paused._producer.send(paused._partition.topic, b"late", b"a\x00k", [("write", b"x")], 0)
    paused._producer.flush()
    begin = time.monotonic()
    assert store.put("a", "k", b"2", version) is not None
    print(f"another writer went on after {time.monotonic() - begin:.3f} s")
    with pytest.raises(Exception, match=r"Fenced|Epoch|abort|error"):
        paused._producer.commit_transaction()
    assert value_of(store, "a", "k") == b"2"
    paused._drop_producer()
    assert paused.put("a", "k", b"3", version) is None
    assert value_of(paused, "a", "k") == b"2"
    store.close()
    paused.close()


def test_a_commit_whose_answer_is_lost_is_told_as_done(backend, monkeypatch):
    store = KafkaStore(backend.address.place, {})
    version = store.put("a", "k", b"1")
    commit, lost = store._commit, []

    def lose_the_answer(*arguments):
        commit(*arguments)
        if not lost:
            lost.append(1)
            raise kafka_backend.KafkaError

    monkeypatch.setattr(store, "_commit", lose_the_answer)
    written = store.put("a", "k", b"2", version)
    assert written is not None
    assert store.get("a", "k").version == written
    assert lost == [1]
    store.close()


def test_a_view_is_read_anew_before_removals_are_forgotten(backend, monkeypatch):
    store = KafkaStore(backend.address.place, {})
    store.put("a", "k", b"1")
    assert values_of(store, "a") == {"k": b"1"}
    # As if the topic had been compacted, and had forgotten the record and its removal.
    store._view["a", "gone"] = store._view["a", "k"]
    assert set(values_of(store, "a")) == {"gone", "k"}
    store._reads_anew_at = 0.0
    assert values_of(store, "a") == {"k": b"1"}
    store.close()


def test_a_topic_that_was_compacted_tells_the_same(backend, broker, monkeypatch):
    often = {"segment.bytes": str(1 << 20), "min.cleanable.dirty.ratio": "0.01"}
    monkeypatch.setattr(kafka_backend, "_TOPIC", {**kafka_backend._TOPIC, **often})
    first, second = (KafkaStore(backend.address.place, {}) for _ in range(2))
    version = first.put("a", "k", b"0")
    first.put("a", "gone", b"1")
    first.remove("a", "gone")
    for number in range(20):
        # In turns, so each fences the other; what was expected wrongly is never in the topic.
        writer, other = (first, second) if number % 2 else (second, first)
        before, version = version, writer.put("a", "k", b"%d" % number + b"x" * 200_000, version)
        assert other.put("a", "k", b"lost", before) is None
    count = 23  # writes
    end = time.monotonic() + 100
    while _records(broker, first._partition) >= count:
        assert time.monotonic() < end, "it was not compacted"
        time.sleep(0.5)
    third = KafkaStore(backend.address.place, {})
    assert third.all("a") == first.all("a")
    assert third.get("a", "k").version == version
    assert third.put("a", "k", b"new", version) is not None
    for each in (first, second, third):
        each.close()


def _records(broker, partition) -> int:
    consumer = KafkaConsumer(
        bootstrap_servers=broker.address, group_id=None, auto_offset_reset="earliest"
    )
    consumer.assign([partition])
    consumer.seek_to_beginning(partition)
    end, found = consumer.end_offsets([partition])[partition], 0
    while consumer.position(partition) < end:
        found += sum(map(len, consumer.poll(timeout_ms=100).values()))
    consumer.close()
    return found


def test_a_topic_for_something_else_is_left_alone(backend, broker):
    admin = KafkaAdminClient(bootstrap_servers=broker.address)
    for name, partitions, policy in (("many", 3, "compact"), ("events", 1, "delete")):
        topic = f"{name}-{uuid.uuid4().hex}"
        settings = {"num_partitions": partitions, "configs": {"cleanup.policy": policy}}
        admin.create_topics({topic: settings})
        with pytest.raises(BadSetup, match=f"{topic}.* is no metadata store: it has {partitions}"):
            StoreOfKind(f"kafka:{broker.address}/{topic}").open()
    admin.close()


def test_records_of_others_in_the_topic_are_left_alone(backend, broker):
    store = backend.open()
    store.put("a", "k", b"1")
    topic = backend.address.place.partition("/")[2]
    producer = KafkaProducer(bootstrap_servers=broker.address)
    producer.send(topic, b"junk", b"a\x00k").get(20)
    producer.close()
    assert values_of(store, "a") == {"k": b"1"}
    store.close()


def test_an_outage_is_told_and_over_when_the_broker_is_back(backend, broker, monkeypatch):
    monkeypatch.setattr(kafka_backend, "_ANSWER_SECONDS", 4.0)
    store = StoreOfKind(backend.text).open()
    version = store.put("a", "k", b"1")
    broker.kill()
    with pytest.raises(StoreDown, match=f"{broker.address}.*(cannot be used|not answered)"):
        store.get("a", "k")
    broker.start()
    end = time.monotonic() + 60
    while True:
        try:
            assert value_of(store, "a", "k") == b"1"
            break
        except StoreDown:
            assert time.monotonic() < end
            time.sleep(0.2)
    assert store.put("a", "k", b"2", version) is not None
    store.close()


def test_where_nothing_answers_is_told_with_what_to_do():
    with pytest.raises(BadSetup, match=r"kafka:127.0.0.1:1/x cannot be used now.*See that"):
        KafkaStore("127.0.0.1:1/x", {}, seconds=1)


def test_a_password_comes_from_a_file_and_is_not_told(broker, tmp_path, monkeypatch):
    path = tmp_path / "client.properties"
    text = (
        "# for the store\nsecurity.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
        "sasl.username=me\nsasl.password={}\n"
    )
    monkeypatch.setenv(CONFIG, str(path))
    where = f"kafka:{broker.users_address}/users-{uuid.uuid4().hex}"
    path.write_text(text.format("sesame-1"))
    store = StoreOfKind(where).open()
    store.put("a", "k", b"1")
    assert value_of(store, "a", "k") == b"1"
    store.close()
    monkeypatch.setattr(kafka_backend, "_ANSWER_SECONDS", 4.0)
    path.write_text(text.format("sesame-2"))
    with pytest.raises(BadSetup, match=CONFIG) as told:
        StoreOfKind(where).open()
    assert "sesame" not in str(told.value)
