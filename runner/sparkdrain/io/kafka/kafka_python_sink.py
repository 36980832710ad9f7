"""Records to brokers, by kafka-python: how its producers take them, and a sink."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from kafka import KafkaProducer
from typing_extensions import override

from sparkdrain.io.kafka.client import Partition, Sender, Sent, Sink
from sparkdrain.io.kafka.errors import KafkaWriteFailed
from sparkdrain.io.kafka.kafka_python_errors import Failures, made

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
