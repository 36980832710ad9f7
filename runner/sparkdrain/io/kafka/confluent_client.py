"""The client on confluent-kafka, which is librdkafka: C, with threads of its own."""

from __future__ import annotations

import time
from contextlib import suppress
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

import confluent_kafka as ck
from confluent_kafka import KafkaError, KafkaException, TopicPartition
from typing_extensions import override

from sparkdrain.errors import BadSetup
from sparkdrain.io.kafka.client import Catalog, Client, Partition, matching
from sparkdrain.io.kafka.confluent_errors import REFUSALS, Problems, failure, made, may_pass
from sparkdrain.io.kafka.confluent_producers import ConfluentSink, ConfluentTransactions
from sparkdrain.io.kafka.confluent_records import ConfluentRecords
from sparkdrain.io.kafka.settings import Settings, for_rdkafka

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from sparkdrain.io.kafka.client import ServiceClock

# It insists on a group, even where none is used.
_NO_GROUP: Final = "sparkdrain-without-a-group"
_MOST_QUEUED: Final = 500_000
# How long a question may take; a broker that restarts is back by then. Seconds.
_PATIENCE: Final = 60.0
_ANSWER: Final = 5.0
_PAUSE: Final = 0.2
_UNKNOWN: Final = 10.0
_EARLIEST: Final = -2
_LATEST: Final = -1


class ConfluentClient(Client):
    """Reaches brokers by confluent-kafka, a wrapper of librdkafka."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._servers = settings.servers
        self._config = for_rdkafka(dict(settings.config))

    @override
    def catalog(self) -> ConfluentCatalog:
        return ConfluentCatalog(self._servers, self._consumer_config())

    @override
    def records(self, *, headers: bool) -> ConfluentRecords:
        config = self._consumer_config()
        config.setdefault("fetch.queue.backoff.ms", 5)
        config.setdefault("fetch.wait.max.ms", 100)
        config.setdefault("queued.max.messages.kbytes", 32 << 10)
        return ConfluentRecords(self._servers, config, headers=headers)

    @override
    def clock(self) -> ServiceClock:
        if find_spec("kafka") is None:
            msg = (
                f"Kafka at {self._servers} does not tell its time to confluent-kafka: "
                "pip install kafka-python where the pipeline runs, which can ask for it"
            )
            raise BadSetup(msg)
        from sparkdrain.io.kafka.kafka_python_client import KafkaPythonClient  # noqa: PLC0415

        return KafkaPythonClient(self._settings).clock()

    @override
    def sink(self, *, tell: bool) -> ConfluentSink:
        config = {"bootstrap.servers": self._servers, **self._config}
        config.setdefault("acks", "all")
        config.setdefault("enable.idempotence", str(config["acks"]) in ("all", "-1"))
        config.setdefault("linger.ms", 20)
        config.setdefault("batch.size", 1 << 20)
        config.setdefault("queue.buffering.max.messages", _MOST_QUEUED)
        # As Kafka's own client and kafka-python choose partitions.
        config.setdefault("partitioner", "murmur2_random")
        return ConfluentSink(self._servers, config, tell=tell)

    @override
    def transactions(self, ident: str, mark: Partition) -> ConfluentTransactions:
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


class ConfluentCatalog(Catalog):
    """Asks brokers by a consumer of confluent-kafka, and asks again while they are away."""

    def __init__(self, servers: str, config: Mapping[str, Any]) -> None:
        self._servers = servers
        self._problems = Problems()
        self._consumer = made(servers, ck.Consumer, {**config, "error_cb": self._problems})

    @override
    def partitions(self, topics: Sequence[str], pattern: str | None) -> list[Partition]:
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

    @override
    def earliest(self, partition: Partition) -> int:
        return self._offsets([partition], _EARLIEST)[partition]

    @override
    def latest(self, partitions: Sequence[Partition]) -> dict[Partition, int]:
        return self._offsets(partitions, _LATEST)

    @override
    def at_time(self, partition: Partition, millis: int) -> int | None:
        offset = self._offsets([partition], millis)[partition]
        return None if offset < 0 else offset

    def _offsets(self, partitions: Sequence[Partition], at: int) -> dict[Partition, int]:
        asked = [TopicPartition(topic, number, at) for topic, number in partitions]
        return self._answers(
            self._ask(lambda: self._consumer.offsets_for_times(asked, timeout=_ANSWER))
        )

    @override
    def committed(self, partition: Partition) -> int | None:
        asked = [TopicPartition(*partition)]
        found = self._answers(self._ask(lambda: self._consumer.committed(asked, timeout=_ANSWER)))
        return None if found[partition] < 0 else found[partition]

    @override
    def commit(self, offsets: Mapping[Partition, int]) -> None:
        wanted = [TopicPartition(*partition, offset) for partition, offset in offsets.items()]
        self._ask(lambda: self._consumer.commit(offsets=wanted, asynchronous=False))

    @override
    def close(self) -> None:
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
        began = time.monotonic()
        while True:
            try:
                return question()
            except KafkaException as raised:
                error = raised.args[0]
                self._consumer.poll(0)  # which is when it tells why
                refused = self._problems.refusal or error
                passed = time.monotonic() - began
                if not self._may_pass(refused, error, passed):
                    raise failure(self._servers, refused) from raised
            time.sleep(_PAUSE)
            # It would go on asking those who had the partitions before.
            with suppress(KafkaException):
                self._consumer.list_topics(timeout=_ANSWER)

    def _may_pass(self, refused: KafkaError, error: KafkaError, passed: float) -> bool:
        if refused.code() == KafkaError._UNKNOWN_PARTITION:  # noqa: SLF001
            # So it says of a broker that has just started, too.
            return passed < _UNKNOWN
        return refused.code() not in REFUSALS and may_pass(error) and passed < _PATIENCE
