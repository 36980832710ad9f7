"""Questions to brokers, by confluent-kafka."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import confluent_kafka as ck
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from sparkdrain.io.kafka.client import Partition
from sparkdrain.io.kafka.confluent_errors import (
    LOGGER,
    REFUSALS,
    Problems,
    failure,
    may_pass,
)
from sparkdrain.io.kafka.topics import matching

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


# How long a question may take; a broker that restarts is back by then. Seconds.
PATIENCE: Final = 60.0
_ANSWER: Final = 5.0
_EARLIEST: Final = -2
_LATEST: Final = -1


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
        for _ in range(int(PATIENCE / _ANSWER)):
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
