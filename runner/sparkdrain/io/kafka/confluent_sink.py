"""Records to brokers, by confluent-kafka: how its producers take them, and a sink."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

import confluent_kafka as ck
from confluent_kafka import KafkaError, KafkaException
from typing_extensions import override

from sparkdrain.io.kafka.client import Partition, Sender, Sent, Sink
from sparkdrain.io.kafka.confluent_errors import Problems, failure, made
from sparkdrain.io.kafka.errors import KafkaWriteFailed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sparkdrain.io.kafka.client import Headers

_PATIENCE: Final = 60.0  # seconds


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
