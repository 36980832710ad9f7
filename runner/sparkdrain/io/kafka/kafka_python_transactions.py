"""Transactions of kafka-python, for an outbox."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.structs import OffsetAndMetadata
from typing_extensions import override

from sparkdrain.io.kafka.client import Transactions
from sparkdrain.io.kafka.errors import KafkaWriteFailed
from sparkdrain.io.kafka.kafka_python_errors import PATIENCE, Failures, made
from sparkdrain.io.kafka.kafka_python_sink import KafkaPythonSender
from sparkdrain.io.kafka.note import Recorded

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sparkdrain.io.kafka.client import Partition


class KafkaPythonTransactions(KafkaPythonSender, Transactions):
    """See ``Transactions``. An instance serves one key group, one call of ``publish`` at a time.

    Args:
        servers: to name in errors.
        config: the client's settings, under kafka-python's names.
        ident: the transactional id, and the group that keeps what is recorded.
        mark: a partition that there is, under which the group keeps it.
    """

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
