"""What brokers say when they are asked for their time, whatever they know of it."""

from __future__ import annotations

import pytest

pytest.importorskip("kafka", reason="needs the extra kafka: it is kafka-python that asks")

from kafka import errors as kafka_errors
from kafka.admin import KafkaAdminClient
from kafka.protocol.admin import DescribeQuorumResponse
from kafka.protocol.broker_version_data import BrokerVersionData
from kafka.protocol.consumer import OffsetSpec
from kafka.structs import OffsetAndTimestamp

from sparkdrain.errors import BadSetup
from sparkdrain.io.kafka import kafka_python_clock
from sparkdrain.io.kafka.client import ServiceTime
from sparkdrain.io.kafka.settings import Settings

NOW = 1_800_000_000_000
TOPIC = DescribeQuorumResponse.TopicData
PARTITION = TOPIC.PartitionData
REPLICA = PARTITION.ReplicaState


def quorum(*times, error=0, partition_error=0):
    """An answer as it comes out of the wire, by its version; the leader's time is the first."""

    def answer(version):
        replicas = [
            REPLICA(replica_id=n, log_end_offset=9, last_fetch_timestamp=at)
            for n, at in enumerate(times)
        ]
        part = PARTITION(
            partition_index=0,
            error_code=partition_error,
            leader_id=0,
            leader_epoch=1,
            high_watermark=9,
            current_voters=replicas[:1],
            observers=replicas[1:],
        )
        topics = [TOPIC(topic_name="__cluster_metadata", partitions=[part])]
        sent = DescribeQuorumResponse[version](error_code=error, topics=topics)
        return DescribeQuorumResponse.decode(sent.encode(version=version), version=version)

    return answer


class Admin:
    """An admin client and its manager; ``answers`` are for the quorum, one after the other."""

    DEFAULT_CONFIG = KafkaAdminClient.DEFAULT_CONFIG

    def __init__(self):
        self.answers, self.newest, self.settings = [], {}, {}
        self.versions = {DescribeQuorumResponse.API_KEY: (0, 2)}
        self.asked, self.closed, self.passed = 0, 0, 0.0
        self.is_old = False
        self._manager = self

    def __call__(self, **settings):
        self.settings = settings
        return self

    def run(self, send, request):
        return send(request)

    def send(self, request):
        self.asked += 1
        version = BrokerVersionData(api_versions=self.versions).api_version(request)
        return self.answers.pop(0)(version)

    def describe_topics(self, topics):
        return [
            {"name": name, "partitions": [{"partition_index": n} for n in range(2)]}
            for name in topics
        ]

    def list_partition_offsets(self, asked):
        if self.is_old and OffsetSpec.MAX_TIMESTAMP in asked.values():
            raise kafka_errors.IncompatibleBrokerVersion
        newest = {at: self.newest.get((at.topic, at.partition), -1) for at in asked}
        return {
            at: OffsetAndTimestamp(0, newest[at] if newest[at] >= after else -1, None)
            for at, after in asked.items()
        }

    def close(self):
        self.closed += 1


@pytest.fixture
def admin(monkeypatch):
    admin = Admin()
    monkeypatch.setattr(kafka_python_clock, "KafkaAdminClient", admin)
    return admin


@pytest.fixture
def clock(admin):
    return kafka_python_clock.KafkaPythonClock(
        "b:9092", {"client_id": "c"}, lambda: admin.passed, lambda: NOW / 1000
    )


@pytest.mark.parametrize("version", [1, 2])
def test_the_time_is_that_of_the_leader_of_the_controllers(admin, clock, version):
    admin.versions = {DescribeQuorumResponse.API_KEY: (0, version)}
    admin.answers = [quorum(NOW, NOW - 400, -1)]
    assert clock.time(["t"]) == ServiceTime(NOW / 1000)
    assert admin.settings["client_id"] == "c"


def test_brokers_that_do_not_tell_it_are_asked_for_the_newest_record(admin, clock):
    denied = quorum(error=kafka_errors.ClusterAuthorizationFailedError.errno)
    admin.answers = [denied, denied, quorum(NOW)]
    told = clock.time(["t"])
    assert told.seconds is None
    assert told.reason.startswith("Kafka at b:9092 does not tell its time (ClusterAuthorization")
    assert told.reason.endswith("grant its user the right DESCRIBE on the cluster")
    admin.newest = {("t", 0): NOW - 9000, ("u", 1): NOW - 5000}
    assert clock.time([]).seconds is None
    assert clock.time(["t", "u"]) == ServiceTime(NOW / 1000 - 5, told.reason)
    assert admin.asked == 1, "a refusal is not asked for every few seconds"
    admin.passed = 600.0
    assert clock.time(["t"]).reason == told.reason
    admin.passed = 1200.0
    assert clock.time(["t"]) == ServiceTime(NOW / 1000)


@pytest.mark.parametrize("versions", [{}, {DescribeQuorumResponse.API_KEY: (0, 0)}])
def test_brokers_from_before_kafka_3_3_are_told_apart(admin, clock, versions):
    admin.versions, admin.answers = versions, [quorum(NOW)]
    admin.newest = {("t", 0): NOW}
    told = clock.time(["t"])
    assert told.seconds == NOW / 1000
    assert "brokers of Kafka 3.3 or later do" in told.reason


@pytest.mark.parametrize(("old", "found"), [(8, True), (9 * 60, True), (11 * 60, False)])
def test_brokers_from_before_kafka_3_are_asked_for_records_of_some_minutes(
    admin, clock, old, found
):
    admin.versions, admin.is_old = {}, True
    admin.newest = {("t", 1): NOW - old * 1000}
    assert clock.time(["t"]).seconds == (NOW / 1000 - old if found else None)


def test_after_the_election_of_a_controller_it_is_asked_again_at_once(admin, clock):
    electing = kafka_errors.NotLeaderForPartitionError.errno
    admin.answers = [quorum(-1, partition_error=electing), quorum(NOW)]
    assert clock.time(["t"]).seconds is None
    assert clock.time(["t"]) == ServiceTime(NOW / 1000)


@pytest.fixture
def confluent():
    pytest.importorskip("confluent_kafka", reason="confluent-kafka is not installed")
    from sparkdrain.io.kafka import confluent_client  # noqa: PLC0415

    return confluent_client


def test_it_is_kafka_python_that_asks_for_confluent_kafka(admin, confluent):
    settings = Settings("b:9092", (("queued.max.messages.kbytes", 9), ("sasl.username", "me")))
    clock = confluent.ConfluentClient(settings).clock()
    assert admin.settings["sasl_plain_username"] == "me"
    assert admin.settings.keys() <= Admin.DEFAULT_CONFIG.keys()
    clock.close()
    assert admin.closed == 1


def test_without_kafka_python_the_package_is_named(confluent, monkeypatch):
    monkeypatch.setattr(confluent, "find_spec", lambda name: None)
    with pytest.raises(BadSetup, match="pip install kafka-python"):
        confluent.ConfluentClient(Settings("b:9092")).clock()
