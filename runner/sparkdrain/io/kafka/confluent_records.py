"""Records from brokers, by confluent-kafka."""

from __future__ import annotations

from itertools import filterfalse, groupby
from operator import methodcaller
from typing import TYPE_CHECKING, Any

import confluent_kafka as ck
from confluent_kafka import KafkaError, TopicPartition
from typing_extensions import override

from sparkdrain.io.kafka.client import (
    NO_HEADERS,
    NO_TIME,
    FetchedRecords,
    Headers,
    LostRecords,
    Partition,
    RecordReader,
    nothing,
)
from sparkdrain.io.kafka.confluent_errors import LOST, Problems, failure, made, may_pass
from sparkdrain.io.kafka.errors import KafkaDataLost

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from sparkdrain.io.kafka.errors import KafkaFailed

_key = methodcaller("key")
_value = methodcaller("value")
_offset = methodcaller("offset")
_stamp = methodcaller("timestamp")
_partition = methodcaller("partition")


class ConfluentRecords(RecordReader):
    """Fetches records by librdkafka, which reads ahead in threads of its own."""

    def __init__(self, servers: str, config: Mapping[str, Any], *, headers: bool) -> None:
        self._servers = servers
        self._problems = Problems()
        self._consumer = made(servers, ck.Consumer, {**config, "error_cb": self._problems})
        self._headers = headers
        self._followed: set[Partition] = set()

    @override
    def follow(self, partition: Partition, offset: int) -> None:
        self.leave(partition)
        self._consumer.incremental_assign([TopicPartition(*partition, offset)])
        self._followed.add(partition)

    @override
    def leave(self, partition: Partition) -> None:
        if partition in self._followed:
            self._followed.remove(partition)
            self._consumer.incremental_unassign([TopicPartition(*partition)])

    @override
    def pause(self, partition: Partition) -> None:
        self._consumer.pause([TopicPartition(*partition)])

    @override
    def resume(self, partition: Partition) -> None:
        self._consumer.resume([TopicPartition(*partition)])

    @override
    def poll(self, seconds: float, most: int) -> Iterator[FetchedRecords | LostRecords]:
        # Asked for many with a timeout, it waits until there are so many.
        messages = self._consumer.consume(most, 0)
        if not messages and seconds > 0:
            first = self._consumer.poll(seconds)
            if first is not None:
                messages = [first, *self._consumer.consume(most, 0)]
        if not messages:
            self._problems.check(self._servers)
        failures: list[KafkaFailed] = []
        for number, same in groupby(messages, _partition):
            for topic, run in groupby(same, methodcaller("topic")):
                if topic is None:  # an error that is of no partition
                    errors = filterfalse(may_pass, map(methodcaller("error"), run))
                    failures.extend(failure(self._servers, error) for error in errors)
                else:
                    yield from self._fetched_parts(Partition(topic, number), list(run), failures)
        if failures:
            # The library has handed out all the others, and will not do so again.
            raise failures[0]

    def _fetched_parts(
        self, partition: Partition, messages: list[Any], failures: list[KafkaFailed]
    ) -> Iterator[FetchedRecords | LostRecords]:
        begin = 0
        for index, message in enumerate(map(methodcaller("error"), messages)):
            if message is None:
                continue
            if index > begin:
                yield self._fetched(partition, messages[begin:index])
            begin = index + 1
            yield from self._event(partition, messages[index], message, failures)
        if begin < len(messages):
            yield self._fetched(partition, messages[begin:] if begin else messages)

    def _fetched(self, partition: Partition, messages: list[Any]) -> FetchedRecords:
        offsets = list(map(_offset, messages))
        headers: Sequence[Headers] = ()
        if self._headers:
            headers = [tuple(one) if (one := m.headers()) else NO_HEADERS for m in messages]
        return FetchedRecords(
            partition,
            offsets,
            [millis if kind else NO_TIME for kind, millis in map(_stamp, messages)],
            list(map(_key, messages)),
            list(map(_value, messages)),
            headers,
            offsets[-1] + 1,
        )

    def _event(
        self, partition: Partition, message: Any, error: KafkaError, failures: list[KafkaFailed]
    ) -> Iterator[FetchedRecords | LostRecords]:
        if error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001
            yield nothing(partition, message.offset())
        elif error.code() in LOST:
            yield LostRecords(partition, KafkaDataLost(f"{partition}: {error.str()}"))
        elif not may_pass(error):
            failures.append(failure(self._servers, error, f"{partition}: "))

    @override
    def end(self, partition: Partition) -> int | None:
        if partition not in self._followed:
            return None
        _, high = self._consumer.get_watermark_offsets(TopicPartition(*partition), cached=True)
        return high if high >= 0 else None

    @override
    def close(self) -> None:
        self._consumer.close()
