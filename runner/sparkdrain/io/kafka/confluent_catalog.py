"""Questions to brokers, by confluent-kafka."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import confluent_kafka as ck
from confluent_kafka import KafkaError, KafkaException, TopicPartition
from typing_extensions import override

from sparkdrain.io.kafka.client import Catalog, Partition
from sparkdrain.io.kafka.confluent_errors import (
    REFUSALS,
    Problems,
    failure,
    made,
    may_pass,
)
from sparkdrain.io.kafka.topics import matching

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


# How long a question may take; a broker that restarts is back by then. Seconds.
PATIENCE: Final = 60.0
_ANSWER: Final = 5.0
_PAUSE: Final = 0.2
_UNKNOWN: Final = 10.0
_EARLIEST: Final = -2
_LATEST: Final = -1


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
        return refused.code() not in REFUSALS and may_pass(error) and passed < PATIENCE
