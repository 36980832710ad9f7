"""The client on confluent-kafka, which is librdkafka: C, with threads of its own."""

from __future__ import annotations

from collections import Counter
from itertools import groupby
from operator import methodcaller
from typing import TYPE_CHECKING, Any, Final

import confluent_kafka as ck
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from sparkdrain.io.kafka.client import (
    NO_HEADERS,
    NO_TIME,
    Batch,
    Headers,
    Partition,
    Sent,
    nothing,
)
from sparkdrain.io.kafka.confluent_errors import (
    LOGGER,
    LOST,
    REFUSALS,
    Problems,
    failure,
    may_pass,
)
from sparkdrain.io.kafka.confluent_transactions import ConfluentTransactions
from sparkdrain.io.kafka.errors import KafkaDataLost, KafkaWriteFailed
from sparkdrain.io.kafka.settings import Settings, for_rdkafka
from sparkdrain.io.kafka.topics import matching

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

# How long a question may take; a broker that restarts is back by then. Seconds.
_PATIENCE: Final = 60.0
_ANSWER: Final = 5.0
# It insists on a group, even where none is used.
_NO_GROUP: Final = "sparkdrain-without-a-group"
_EARLIEST: Final = -2
_LATEST: Final = -1
_MOST_QUEUED: Final = 500_000

_key = methodcaller("key")
_value = methodcaller("value")
_offset = methodcaller("offset")
_stamp = methodcaller("timestamp")
_partition = methodcaller("partition")


class ConfluentClient:
    """See ``Client``."""

    def __init__(self, settings: Settings) -> None:
        self._servers = settings.servers
        self._config = for_rdkafka(dict(settings.config))

    def catalog(self) -> ConfluentCatalog:
        """See ``Client``."""
        return ConfluentCatalog(self._servers, self._consumer_config())

    def records(self, *, headers: bool) -> ConfluentRecords:
        """See ``Client``."""
        config = self._consumer_config()
        config.setdefault("fetch.queue.backoff.ms", 5)
        config.setdefault("fetch.wait.max.ms", 100)
        config.setdefault("queued.max.messages.kbytes", 32 << 10)
        return ConfluentRecords(self._servers, config, headers=headers)

    def sink(self, *, tell: bool) -> ConfluentSink:
        """See ``Client``."""
        config = {"bootstrap.servers": self._servers, **self._config}
        config.setdefault("acks", "all")
        config.setdefault("enable.idempotence", str(config["acks"]) in ("all", "-1"))
        config.setdefault("linger.ms", 20)
        config.setdefault("batch.size", 1 << 20)
        config.setdefault("queue.buffering.max.messages", _MOST_QUEUED)
        # As Kafka's own client and kafka-python choose partitions.
        config.setdefault("partitioner", "murmur2_random")
        return ConfluentSink(self._servers, config, tell=tell)

    def transactions(self, ident: str, mark: Partition) -> ConfluentTransactions:
        """See ``Client``."""
        return ConfluentTransactions(self._servers, self._config, ident, mark)

    def _consumer_config(self) -> dict[str, Any]:
        return {
            "bootstrap.servers": self._servers,
            "group.id": _NO_GROUP,
            **self._config,
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "auto.offset.reset": "error",
            "enable.partition.eof": True,
        }


class ConfluentCatalog:
    """See ``Catalog``."""

    def __init__(self, servers: str, config: Mapping[str, Any]) -> None:
        self._servers = servers
        self._problems = Problems()
        self._consumer = ck.Consumer({**config, "error_cb": self._problems}, logger=LOGGER)

    def partitions(self, topics: Sequence[str], pattern: str | None) -> list[Partition]:
        """See ``Catalog``."""
        # One by one, so that large clusters need not tell of everything that they have.
        asked = [(name,) for name in topics] if pattern is None else [()]
        known = {}
        for one in asked:
            found = self._ask(lambda one=one: self._consumer.list_topics(*one, timeout=_ANSWER))
            for name, topic in found.topics.items():
                if topic.error is None:
                    known[name] = sorted(topic.partitions)
        return [
            Partition(name, number)
            for name in matching(known, topics, pattern, self._servers)
            for number in known[name]
        ]

    def earliest(self, partitions: Sequence[Partition]) -> dict[Partition, int]:
        """See ``Catalog``."""
        return self._offsets(partitions, _EARLIEST)

    def latest(self, partitions: Sequence[Partition]) -> dict[Partition, int]:
        """See ``Catalog``."""
        return self._offsets(partitions, _LATEST)

    def at_time(self, partitions: Sequence[Partition], millis: int) -> dict[Partition, int | None]:
        """See ``Catalog``."""
        found = self._offsets(partitions, millis)
        return {partition: None if offset < 0 else offset for partition, offset in found.items()}

    def _offsets(self, partitions: Sequence[Partition], at: int) -> dict[Partition, int]:
        asked = [TopicPartition(topic, number, at) for topic, number in partitions]
        return self._answers(
            self._ask(lambda: self._consumer.offsets_for_times(asked, timeout=_ANSWER))
        )

    def committed(self, partitions: Sequence[Partition]) -> dict[Partition, int | None]:
        """See ``Catalog``."""
        asked = [TopicPartition(topic, number) for topic, number in partitions]
        found = self._answers(self._ask(lambda: self._consumer.committed(asked, timeout=_ANSWER)))
        return {partition: None if offset < 0 else offset for partition, offset in found.items()}

    def commit(self, offsets: Mapping[Partition, int]) -> None:
        """See ``Catalog``."""
        wanted = [TopicPartition(*partition, offset) for partition, offset in offsets.items()]
        self._ask(lambda: self._consumer.commit(offsets=wanted, asynchronous=False))

    def close(self) -> None:
        """See ``Catalog``."""
        self._consumer.close()

    def _answers(self, found: Iterable[Any]) -> dict[Partition, int]:
        answers = {}
        for one in found:
            if one.error is not None:
                raise failure(self._servers, one.error, f"{one.topic}[{one.partition}]: ")
            answers[Partition(one.topic, one.partition)] = one.offset
        return answers

    def _ask(self, question: Any) -> Any:
        """Ask until it is answered, or patience is at an end."""
        error: KafkaError | None = None
        for _ in range(int(_PATIENCE / _ANSWER)):
            try:
                return question()
            except KafkaException as raised:
                error = raised.args[0]
                self._consumer.poll(0)  # which is when it tells why
                refused = self._problems.refusal or error
                if refused.code() in REFUSALS or not may_pass(error):
                    raise failure(self._servers, refused) from raised
        assert error is not None
        raise failure(self._servers, error)


class ConfluentRecords:
    """See ``Records``."""

    def __init__(self, servers: str, config: Mapping[str, Any], *, headers: bool) -> None:
        self._servers = servers
        self._problems = Problems()
        self._consumer = ck.Consumer({**config, "error_cb": self._problems}, logger=LOGGER)
        self._headers = headers
        self._followed: set[Partition] = set()

    def follow(self, partition: Partition, offset: int) -> None:
        """See ``Records``."""
        self.leave(partition)
        self._consumer.incremental_assign([TopicPartition(*partition, offset)])
        self._followed.add(partition)

    def leave(self, partition: Partition) -> None:
        """See ``Records``."""
        if partition in self._followed:
            self._followed.remove(partition)
            self._consumer.incremental_unassign([TopicPartition(*partition)])

    def pause(self, partition: Partition) -> None:
        """See ``Records``."""
        self._consumer.pause([TopicPartition(*partition)])

    def resume(self, partition: Partition) -> None:
        """See ``Records``."""
        self._consumer.resume([TopicPartition(*partition)])

    def poll(self, seconds: float, most: int) -> Iterator[Batch]:
        """See ``Records``."""
        # Asked for many with a timeout, it waits until there are so many.
        messages = self._consumer.consume(most, 0)
        if not messages and seconds > 0:
            first = self._consumer.poll(seconds)
            if first is not None:
                messages = [first, *self._consumer.consume(most, 0)]
        if not messages:
            self._problems.check(self._servers)
        for number, same in groupby(messages, _partition):
            for topic, run in groupby(same, methodcaller("topic")):
                if topic is None:  # an error that is of no partition
                    self._check_all(run)
                else:
                    yield from self._batches(Partition(topic, number), list(run))

    def _batches(self, partition: Partition, messages: list[Any]) -> Iterator[Batch]:
        begin = 0
        for index, message in enumerate(map(methodcaller("error"), messages)):
            if message is None:
                continue
            if index > begin:
                yield self._batch(partition, messages[begin:index])
            begin = index + 1
            yield from self._event(partition, messages[index], message)
        if begin < len(messages):
            yield self._batch(partition, messages[begin:] if begin else messages)

    def _batch(self, partition: Partition, messages: list[Any]) -> Batch:
        offsets = list(map(_offset, messages))
        headers: Sequence[Headers] = ()
        if self._headers:
            headers = [tuple(one) if (one := m.headers()) else NO_HEADERS for m in messages]
        return Batch(
            partition,
            offsets,
            [millis if kind else NO_TIME for kind, millis in map(_stamp, messages)],
            list(map(_key, messages)),
            list(map(_value, messages)),
            headers,
            offsets[-1] + 1,
        )

    def _event(self, partition: Partition, message: Any, error: KafkaError) -> Iterator[Batch]:
        if error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001
            yield nothing(partition, message.offset())
        elif error.code() in LOST:
            msg = f"{partition}: {error.str()}"
            raise KafkaDataLost(msg)
        elif not may_pass(error):
            raise failure(self._servers, error, f"{partition}: ")

    def _check_all(self, messages: Iterable[Any]) -> None:
        for message in messages:
            if not may_pass(message.error()):
                raise failure(self._servers, message.error())

    def end(self, partition: Partition) -> int | None:
        """See ``Records``."""
        if partition not in self._followed:
            return None
        _, high = self._consumer.get_watermark_offsets(TopicPartition(*partition), cached=True)
        return high if high >= 0 else None

    def close(self) -> None:
        """See ``Records``."""
        self._consumer.close()


class ConfluentSink:
    """See ``Sink``."""

    def __init__(self, servers: str, config: Mapping[str, Any], *, tell: bool) -> None:
        self._servers = servers
        self._problems = Problems()
        only_errors = {"delivery.report.only.error": not tell}
        config = {**config, **only_errors, "error_cb": self._problems}
        self._producer = ck.Producer(config, logger=LOGGER)
        self._failures: Counter[tuple[str, str]] = Counter()
        self._arrived: dict[Partition, Sent] = {}
        self._partitions: dict[str, int] = {}

    def send(
        self,
        topic: str,
        partition: int | None,
        key: bytes | None,
        value: bytes | None,
        headers: Headers,
        millis: int | None,
    ) -> None:
        """See ``Sink``."""
        if partition is None and not headers and millis is None:
            try:
                self._producer.produce(topic, value, key, on_delivery=self._delivered)
            except BufferError:
                self._producer.poll(0.05)
            else:
                return
        optional: dict[str, Any] = {}
        if partition is not None:
            optional["partition"] = partition
        if headers:
            optional["headers"] = list(headers)
        if millis is not None:
            optional["timestamp"] = millis
        while True:
            try:
                self._producer.produce(topic, value, key, on_delivery=self._delivered, **optional)
            except BufferError:
                self._producer.poll(0.05)
            else:
                return

    def _delivered(self, error: KafkaError | None, message: Any) -> None:
        if error is not None:
            self._failures[message.topic(), error.str()] += 1
            return
        at = Partition(message.topic(), message.partition())
        before = self._arrived.get(at, Sent(at, 0, -1))
        self._arrived[at] = Sent(at, before.records + 1, max(before.last, message.offset()))

    def flush(self) -> list[Sent]:
        """See ``Sink``."""
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

    def forget(self) -> None:
        """See ``Sink``."""
        self._producer.purge()
        self._producer.flush(1.0)
        self._failures.clear()
        self._arrived.clear()

    def partitions(self, topic: str) -> int:
        """See ``Sink``."""
        if topic not in self._partitions:
            try:
                found = self._producer.list_topics(topic, timeout=_PATIENCE).topics[topic]
            except KafkaException as error:
                raise failure(self._servers, error.args[0]) from error
            if found.error is not None:
                raise failure(self._servers, found.error, f"{topic!r}: ")
            self._partitions[topic] = len(found.partitions)
        return self._partitions[topic]

    def close(self) -> None:
        """See ``Sink``."""
        self._producer.purge()
        self._producer.flush(1.0)
