"""Records to brokers, by producers of confluent-kafka: as they come, and in transactions."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import confluent_kafka as ck
from confluent_kafka import KafkaError, KafkaException, TopicPartition
from typing_extensions import override

from sparkdrain.io.kafka.client import Partition, Sender, Sent, Sink, Transactions
from sparkdrain.io.kafka.confluent_errors import REFUSALS, Problems, failure, made, may_pass
from sparkdrain.io.kafka.errors import KafkaRefused, KafkaUnreachable, KafkaWriteFailed
from sparkdrain.io.kafka.note import Recorded
from sparkdrain.io.kafka.patience import in_time

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sparkdrain.io.kafka.client import Headers

# Seconds.
_PATIENCE: Final = 60.0
_RECORD_SECONDS: Final = 15.0
_CONNECT_SECONDS: Final = 2.0


class ConfluentSender(Sender):
    """Queues records with a producer, which tells how each has ended."""

    _producer: Any

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
        if partition is None and not headers and millis is None:
            try:
                self._producer.produce(topic, value, key, on_delivery=self._delivered)
            except BufferError:
                self._producer.poll(0.05)
            else:
                return
        optional: dict[str, Any] = {"headers": list(headers)} if headers else {}
        if partition is not None:
            optional["partition"] = partition
        if millis is not None:
            optional["timestamp"] = millis
        while True:
            try:
                self._producer.produce(topic, value, key, on_delivery=self._delivered, **optional)
            except BufferError:
                self._producer.poll(0.05)
            else:
                return

    def _delivered(self, error: Any, message: Any) -> None:
        """A record has arrived, or will not."""


class ConfluentSink(ConfluentSender, Sink):
    """Sends records by librdkafka, which batches and retries in threads of its own."""

    def __init__(self, servers: str, config: Mapping[str, Any], *, tell: bool) -> None:
        self._servers = servers
        self._problems = Problems()
        only_errors = {"delivery.report.only.error": not tell}
        config = {**config, **only_errors, "error_cb": self._problems}
        self._producer = made(servers, ck.Producer, config)
        self._failures: Counter[tuple[str, str]] = Counter()
        self._arrived: dict[Partition, Sent] = {}
        self._partitions: dict[str, int] = {}

    @override
    def _delivered(self, error: KafkaError | None, message: Any) -> None:
        if error is not None:
            self._failures[message.topic(), error.str()] += 1
            return
        at = Partition(message.topic(), message.partition())
        before = self._arrived.get(at, Sent(at, 0, -1))
        self._arrived[at] = Sent(at, before.records + 1, max(before.last, message.offset()))

    @override
    def flush(self) -> list[Sent]:
        while self._producer.flush(1.0):
            if self._problems.refusal is not None and not self._failures:
                self._problems.check(self._servers)
        failures, self._failures = self._failures, Counter()
        arrived, self._arrived = self._arrived, {}
        if failures:
            (topic, reason), _ = failures.most_common(1)[0]
            msg = (
                f"{failures.total()} records were not written by way of {self._servers}, "
                f"some of them to {topic!r}: {reason}"
            )
            raise KafkaWriteFailed(msg)
        return sorted(arrived.values())

    @override
    def forget(self) -> None:
        self._producer.purge()
        self._producer.flush(1.0)
        self._failures.clear()
        self._arrived.clear()

    @override
    def partitions(self, topic: str) -> int:
        if topic not in self._partitions:
            try:
                found = self._producer.list_topics(topic, timeout=_PATIENCE).topics[topic]
            except KafkaException as error:
                raise failure(self._servers, error.args[0]) from error
            if found.error is not None:
                raise failure(self._servers, found.error, f"{topic!r}: ")
            self._partitions[topic] = len(found.partitions)
        return self._partitions[topic]

    @override
    def close(self) -> None:
        self._producer.purge()
        self._producer.flush(1.0)


class ConfluentTransactions(ConfluentSender, Transactions):
    """See ``Transactions``. An instance serves one key group, one call of ``publish`` at a time."""

    def __init__(
        self, servers: str, config: Mapping[str, Any], ident: str, mark: Partition
    ) -> None:
        self._servers = servers
        self._config = {
            **config,
            "bootstrap.servers": servers,
            "transactional.id": ident,
            "acks": "all",
            "enable.idempotence": True,
        }
        self._mark = mark
        reading = {"isolation.level": "read_committed", "enable.auto.commit": False}
        config = {"bootstrap.servers": servers, **config, **reading, "group.id": ident}
        self._consumer = made(servers, ck.Consumer, config)
        self._producer = None
        self._problems = Problems()
        self._failures: Counter[str] = Counter()

    @override
    def fence(self) -> None:
        self._failures.clear()
        self._problems = Problems()
        # A producer can do this only once.
        self._producer = made(
            self._servers, ck.Producer, {**self._config, "error_cb": self._problems}
        )
        # While no broker is connected, the library looks for the coordinator every half second.
        with suppress(KafkaException):
            self._producer.list_topics(self._mark.topic, _CONNECT_SECONDS)
        self._try(self._producer.init_transactions, _PATIENCE)

    @override
    def recorded(self) -> Recorded | None:
        asked = [TopicPartition(*self._mark)]
        (found,) = self._try(self._consumer.committed, asked, _PATIENCE)
        if found.error is not None:
            raise failure(self._servers, found.error)
        return None if found.offset < 0 else Recorded(int(found.offset), _metadata(found))

    @override
    def begin(self) -> None:
        self._producer.poll(0)
        if self._problems.disconnected:
            # The library may wait for ever for a coordinator that it knew before (librdkafka's
            # issue 5511); a new producer asks who it is.
            msg = f"Kafka at {self._servers}: a broker was away since the last transaction"
            raise KafkaUnreachable(msg)
        self._try(self._producer.begin_transaction)

    @override
    def record(self, recorded: Recorded) -> None:
        metadata = [recorded.metadata] if recorded.metadata else []
        offsets = [TopicPartition(*self._mark, recorded.number, *metadata)]
        group = self._consumer.consumer_group_metadata()
        # It does not keep to the time that it is given (librdkafka's issue 5456).
        send = partial(self._producer.send_offsets_to_transaction, offsets, group, _RECORD_SECONDS)
        servers = f"Kafka at {self._servers}: the group's coordinator"
        self._try(in_time, send, _RECORD_SECONDS + 1.0, servers)

    @override
    def commit(self) -> None:
        self._try(self._producer.commit_transaction, _PATIENCE)

    @override
    def _delivered(self, error: KafkaError | None, _: Any) -> None:
        if error is not None:
            self._failures[error.str()] += 1

    def _try(self, step: Any, *arguments: Any) -> Any:
        try:
            return step(*arguments)
        except KafkaException as error:
            cause = error.args[0]
            reasons = "; ".join(self._failures) or cause.str()
            text = f"Kafka at {self._servers}: a transaction failed: {reasons}"
            if cause.code() in REFUSALS:
                raise KafkaRefused(text) from error
            raise (KafkaUnreachable if may_pass(cause) else KafkaWriteFailed)(text) from error

    def close(self) -> None:
        """Let go of connections; the producer that fences an open transaction ends it."""
        self._consumer.close()
        if self._producer is not None:
            self._producer.purge()
            self._producer = None


def _metadata(found: TopicPartition) -> str:
    """The metadata of an offset; more may follow it.

    The library takes what it has read for a text with a zero at its end, and librdkafka puts none
    there. What follows in memory may not even be UTF-8.
    """
    try:
        return found.metadata or ""
    except UnicodeDecodeError as error:
        return error.object.decode("utf-8", "replace")
