"""Topics of a broker, and what is in them, for tests."""

from __future__ import annotations

import itertools
import time
from typing import TYPE_CHECKING, Any

from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from sparkdrain.io.kafka.choose import open_client
from sparkdrain.io.kafka.client import FetchedRecords, Partition
from sparkdrain.io.kafka.settings import CONSUMER, PRODUCER, settings

if TYPE_CHECKING:
    from collections.abc import Iterable

PATIENCE_SECONDS = 60.0
CLIENTS = ("kafka-python", "confluent-kafka")
_NUMBERS = itertools.count()


class Topics:
    """Makes topics; writes and reads them."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._admin = AdminClient({"bootstrap.servers": address, "log_level": 0})

    def make(self, partitions: int = 1, prefix: str = "topic", **config: str) -> str:
        return self.make_called(f"{prefix}-{next(_NUMBERS)}", partitions, **config)

    def make_called(self, name: str, partitions: int = 1, **config: str) -> str:
        _done(self._admin.create_topics([NewTopic(name, partitions, 1, config=config)]))
        return name

    def grow(self, topic: str, partitions: int) -> None:
        _done(self._admin.create_partitions([NewPartitions(topic, partitions)]))

    def delete_before(self, topic: str, offset: int, number: int = 0) -> None:
        _done(self._admin.delete_records([TopicPartition(topic, number, offset)]))

    def forget(self, group: str) -> None:
        """The offsets of a group are gone, as after offsets.retention.minutes."""
        _done(self._admin.delete_consumer_groups([group]))

    def client(
        self, library: str = "confluent-kafka", option: str = CONSUMER, **config: Any
    ) -> Any:
        config = {name.replace("_", "."): value for name, value in config.items()}
        return open_client(settings(self.address, config, library, option))

    def write(self, topic: str, records: Iterable[tuple[Any, ...]], **config: Any) -> None:
        """Each record is a partition, key, value, and if need be headers and milliseconds."""
        sink = self.client(option=PRODUCER, **config).sink(tell=False)
        for partition, key, value, *rest in records:
            headers, millis = (*rest, (), None)[:2] if len(rest) != 1 else (rest[0], None)
            sink.send(topic, partition, key, value, headers, millis)
        sink.flush()
        sink.close()

    def read(self, topic: str, partitions: int = 1, library: str = "confluent-kafka") -> list[Any]:
        """All values that are there now."""
        client = self.client(library, isolation_level="read_committed")
        catalog, records = client.catalog(), client.records(headers=False)
        ends = catalog.latest([Partition(topic, number) for number in range(partitions)])
        found: list[Any] = []
        for partition, end in ends.items():
            records.follow(partition, 0)
            for batch in batches(records, partition, end):
                found += batch.values
            records.leave(partition)
        records.close()
        catalog.close()
        return found


def _done(futures: dict[Any, Any]) -> None:
    for future in futures.values():
        future.result(PATIENCE_SECONDS)


def batches(records: Any, partition: Partition, end: int) -> Iterable[FetchedRecords]:
    """What comes of a partition until ``end`` is reached."""
    until = time.monotonic() + PATIENCE_SECONDS
    after = 0
    while after < end:
        assert time.monotonic() < until, f"{partition}: {after} of {end}"
        for batch in records.poll(0.1, 1000):
            if batch.partition == partition:
                after = batch.after
                yield batch
