"""Records of 100 bytes from a topic of Kafka, and to one, with either client library."""

from __future__ import annotations

import subprocess
import sys
import uuid
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.jobs.stream import Stream
from benchmarks.jobs.tally import Tally, read_tally
from benchmarks.jobs.turns import Shard, shards

if TYPE_CHECKING:
    import apache_beam as beam

    from benchmarks.jobs.work import Work

RECORD = b"%0100d" % 2013
PARTITIONS = 4
_KEYS = 10_000  # of the elements that are written, by which the source deals them out
_TOPIC = "topic.txt"
_BROKER = Path(__file__).parents[2] / "integration" / "kafka_broker.py"


@cache
def broker() -> str:
    """The address of a broker, which ends with this process."""
    process = subprocess.Popen(
        [sys.executable, str(_BROKER)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    address = process.stdout.readline().strip().removeprefix("--bootstrap_servers=")
    if not address:
        msg = "the broker did not start; its log says why"
        raise RuntimeError(msg)
    return address


def make_topic(name: str) -> None:
    """Make a topic."""
    from confluent_kafka.admin import AdminClient, NewTopic  # noqa: PLC0415 - for our runner alone

    admin = AdminClient({"bootstrap.servers": broker()})
    (made,) = admin.create_topics([NewTopic(name, PARTITIONS, 1)]).values()
    made.result(60)


@cache
def topic_of(n: int) -> str:
    """A topic with so many records."""
    from confluent_kafka import Producer  # noqa: PLC0415 - for our runner alone

    name = f"records-{n}"
    make_topic(name)
    settings = {"bootstrap.servers": broker(), "linger.ms": 20, "batch.size": 1 << 20}
    producer = Producer({**settings, "queue.buffering.max.messages": 2 * BATCH})
    for begin in range(0, n, BATCH):
        for number in range(begin, min(n, begin + BATCH)):
            producer.produce(name, RECORD, partition=number % PARTITIONS)
        producer.flush()
    return name


BATCH = 100_000


def build_read(pipeline: beam.Pipeline, work: Work, client: str) -> None:
    """Reads a topic to its end."""
    from sparkdrain.io.kafka import ReadFromKafka  # noqa: PLC0415 - for our runner alone

    read = ReadFromKafka(broker(), topic_of(work.n), stop="latest", client=client)
    _ = pipeline | read | Tally(length, 1, work.out, stream=True)


def length(record: tuple[Any, bytes]) -> int:
    """Bytes of a record's value."""
    return len(record[1])


def build_write(pipeline: beam.Pipeline, work: Work, client: str) -> None:
    """Writes to a new topic."""
    from sparkdrain.io.kafka import WriteToKafka  # noqa: PLC0415 - for our runner alone

    name = _new_topic(work)
    kind = tuple[None, bytes]
    records = pipeline | Stream(_of_keys(work), make_records, kind)
    _ = records | WriteToKafka(broker(), name, client=client)


def build_once(pipeline: beam.Pipeline, work: Work, client: str) -> None:
    """Writes to a new topic, exactly once."""
    from sparkdrain.io.kafka import WriteToKafka  # noqa: PLC0415 - for our runner alone

    name = _new_topic(work)
    records = pipeline | Stream(_of_keys(work), make_keyed_records, tuple[bytes, bytes])
    _ = records | WriteToKafka(broker(), name, client=client, exactly_once=name)


def _new_topic(work: Work) -> str:
    name = f"written-{uuid.uuid4().hex}"
    make_topic(name)
    (work.out / _TOPIC).write_text(name, encoding="utf-8")
    return name


def _of_keys(work: Work) -> list[Shard]:
    return shards(min(_KEYS, work.n), max(1, work.n // _KEYS), 100)


def make_records(turn: int, keys: range) -> list[tuple[None, bytes]]:
    """The elements of a turn, all the same."""
    del turn
    return [(None, RECORD)] * len(keys)


def make_keyed_records(turn: int, keys: range) -> list[tuple[bytes, bytes]]:
    """The elements of a turn, one for each key."""
    del turn
    return [(b"%d" % key, RECORD) for key in keys]


def read_result(work: Work) -> list[int]:
    """Records, and their bytes."""
    return read_tally(work.out)


def written_result(work: Work) -> list[int]:
    """Records that are in the topic."""
    from confluent_kafka import Consumer, TopicPartition  # noqa: PLC0415 - for our runner alone

    name = (work.out / _TOPIC).read_text(encoding="utf-8")
    consumer = Consumer({"bootstrap.servers": broker(), "group.id": "benchmarks"})
    ends = [
        consumer.get_watermark_offsets(TopicPartition(name, number), timeout=60)[1]
        for number in range(PARTITIONS)
    ]
    consumer.close()
    return [sum(ends)]


def committed_result(work: Work) -> list[int]:
    """Records in the topic that transactions have committed."""
    from confluent_kafka import Consumer, TopicPartition  # noqa: PLC0415 - for our runner alone

    name = (work.out / _TOPIC).read_text(encoding="utf-8")
    settings = {"bootstrap.servers": broker(), "group.id": "benchmarks"}
    settings |= {"isolation.level": "read_committed", "enable.partition.eof": "true"}
    consumer = Consumer(settings)
    consumer.assign([TopicPartition(name, number, 0) for number in range(PARTITIONS)])
    records, ends = 0, 0
    while ends < PARTITIONS:
        for message in consumer.consume(BATCH, 1.0):
            error = message.error()
            records += error is None
            ends += error is not None
    consumer.close()
    return [records]


def read_expected(work: Work) -> list[int]:
    """See ``read_result``."""
    return [work.n, work.n * len(RECORD)]


def written_expected(work: Work) -> list[int]:
    """See ``written_result``."""
    return [min(_KEYS, work.n) * max(1, work.n // _KEYS)]
