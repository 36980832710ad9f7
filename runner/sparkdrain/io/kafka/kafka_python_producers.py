"""Records to brokers, by producers of kafka-python: as they come, and in transactions."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.structs import OffsetAndMetadata
from typing_extensions import override

from sparkdrain.io.kafka.client import Partition, Sender, Sent, Sink, Transactions
from sparkdrain.io.kafka.errors import KafkaWriteFailed
from sparkdrain.io.kafka.kafka_python_errors import PATIENCE, Failures, made
from sparkdrain.io.kafka.note import Recorded

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from sparkdrain.io.kafka.client import Headers


class KafkaPythonSender(Sender):
    """Queues records with a producer, which batches in a thread of its own.

    It keeps what has failed, and where the others are if it is to tell.
    """

    _servers: str
    _producer: Any
    _tell = False
    _failures: list[BaseException]
    _arrived: list[Any]

    @override
    def send(
        self,
        topic: str,
        partition: int | None,
        key: bytes | None,
        value: bytes | None,
        headers: Headers,
        millis: int | None,
    ) -> None:
        with Failures(self._servers, KafkaWriteFailed):
            future = self._producer.send(topic, value, key, list(headers), partition, millis)
        future.add_errback(self._failures.append)
        if self._tell:
            future.add_callback(self._arrived.append)


class KafkaPythonSink(KafkaPythonSender, Sink):
    """Sends records by a producer of kafka-python, which batches in a thread of its own."""

    def __init__(self, servers: str, config: Mapping[str, Any], *, tell: bool) -> None:
        self._servers = servers
        self._producer = made(servers, KafkaProducer, config)
        self._tell = tell
        self.forget()

    @override
    def flush(self) -> list[Sent]:
        with Failures(self._servers, KafkaWriteFailed):
            self._producer.flush()
        failures, arrived = self._failures, self._arrived
        self.forget()
        if failures:
            (reason, _), *_ = Counter(map(repr, failures)).most_common(1)
            msg = f"{len(failures)} records were not written by way of {self._servers}: {reason}"
            raise KafkaWriteFailed(msg)
        return _sums(arrived)

    @override
    def forget(self) -> None:
        # Sends that are under way still write to the old lists, which are not read any more.
        self._failures = []
        self._arrived = []

    @override
    def partitions(self, topic: str) -> int:
        with Failures(self._servers, KafkaWriteFailed):
            return len(self._producer.partitions_for(topic))

    @override
    def close(self) -> None:
        self._producer.close(timeout=1.0)


def _sums(arrived: Iterable[Any]) -> list[Sent]:
    sums: dict[Partition, Sent] = {}
    for one in arrived:
        at = Partition(one.topic, one.partition)
        before = sums.get(at, Sent(at, 0, -1))
        sums[at] = Sent(at, before.records + 1, max(before.last, one.offset))
    return sorted(sums.values())


class KafkaPythonTransactions(KafkaPythonSender, Transactions):
    """See ``Transactions``. An instance serves one key group, one call of ``publish`` at a time."""

    def __init__(
        self, servers: str, config: Mapping[str, Any], ident: str, mark: Partition
    ) -> None:
        self._servers = servers
        self._config = {**config, "transactional_id": ident, "acks": "all"}
        self._ident = ident
        self._mark = TopicPartition(*mark)
        self._producer: Any = None
        # Otherwise it answers with numbers of transactions that are not over.
        reading = {"isolation_level": "read_committed", "enable_auto_commit": False}
        self._consumer = made(servers, KafkaConsumer, {**config, **reading, "group_id": ident})
        self._failures: list[BaseException] = []

    @override
    def fence(self) -> None:
        self._end()
        self._failures = []
        # A producer can do this only once.
        self._producer = made(self._servers, KafkaProducer, self._config)
        with Failures(self._servers, KafkaWriteFailed):
            self._producer.init_transactions()

    @override
    def recorded(self) -> Recorded | None:
        with Failures(self._servers):
            found = self._consumer.committed(self._mark, metadata=True, timeout_ms=PATIENCE)
        if found is None or found.offset < 0:
            return None
        return Recorded(int(found.offset), found.metadata or "")

    @override
    def begin(self) -> None:
        with Failures(self._servers, KafkaWriteFailed):
            self._producer.begin_transaction()

    @override
    def record(self, recorded: Recorded) -> None:
        offsets = {self._mark: OffsetAndMetadata(recorded.number, recorded.metadata, -1)}
        with Failures(self._servers, KafkaWriteFailed):
            self._producer.send_offsets_to_transaction(offsets, self._ident)

    @override
    def commit(self) -> None:
        with Failures(self._servers, KafkaWriteFailed):
            self._producer.flush()
            if self._failures:
                msg = f"Kafka at {self._servers}: a transaction failed: {self._failures[0]!r}"
                raise KafkaWriteFailed(msg)
            self._producer.commit_transaction()

    def _end(self) -> None:
        if self._producer is not None:
            self._producer.close(timeout=0)
            self._producer = None

    def close(self) -> None:
        """Let go of connections; the producer that fences an open transaction ends it."""
        self._consumer.close(autocommit=False)
        self._end()
