"""The client on kafka-python, which is Python alone."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

from kafka import KafkaAdminClient, KafkaConsumer, TopicPartition
from kafka.structs import OffsetAndMetadata
from typing_extensions import override

from sparkdrain.io.kafka.client import (
    NO_HEADERS,
    NO_TIME,
    Catalog,
    Client,
    FetchedRecords,
    Headers,
    LostRecords,
    Partition,
    RecordReader,
    matching,
    nothing,
)
from sparkdrain.io.kafka.errors import KafkaDataLost, KafkaUnreachable
from sparkdrain.io.kafka.kafka_python_clock import KafkaPythonClock
from sparkdrain.io.kafka.kafka_python_errors import PATIENCE, Failures, made
from sparkdrain.io.kafka.kafka_python_producers import KafkaPythonSink, KafkaPythonTransactions
from sparkdrain.io.kafka.settings import Settings, for_kafka_python

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_PAUSE: Final = 0.2  # seconds, before a broker that was away is asked again
_FETCHED_AHEAD: Final = 1 << 20


class KafkaPythonClient(Client):
    """Reaches brokers by kafka-python, which is Python alone."""

    def __init__(self, settings: Settings) -> None:
        self._servers = settings.servers
        self._config = {
            "bootstrap_servers": settings.servers.split(","),
            "bootstrap_timeout_ms": PATIENCE,
            "reconnect_backoff_max_ms": 1000,
            **for_kafka_python(dict(settings.config)),
        }

    @override
    def catalog(self) -> KafkaPythonCatalog:
        return KafkaPythonCatalog(self._servers, self._config)

    @override
    def records(self, *, headers: bool) -> KafkaPythonRecords:
        config: dict[str, Any] = {
            "fetch_max_wait_ms": 100,
            "max_partition_fetch_bytes": _FETCHED_AHEAD,
        }
        config |= {**self._config, "enable_auto_commit": False, "auto_offset_reset": "none"}
        config |= {"group_id": None}
        return KafkaPythonRecords(self._servers, config, headers=headers)

    @override
    def clock(self) -> KafkaPythonClock:
        return KafkaPythonClock(self._servers, self._config)

    @override
    def sink(self, *, tell: bool) -> KafkaPythonSink:
        config: dict[str, Any] = {"linger_ms": 20, "batch_size": 1 << 18, "acks": "all"}
        return KafkaPythonSink(self._servers, {**config, **self._config}, tell=tell)

    @override
    def transactions(self, ident: str, mark: Partition) -> KafkaPythonTransactions:
        return KafkaPythonTransactions(self._servers, self._config, ident, mark)


class KafkaPythonCatalog(Catalog):
    """Asks brokers by a consumer and an admin client of kafka-python."""

    def __init__(self, servers: str, config: Mapping[str, Any]) -> None:
        self._servers = servers
        # It must not be told of a group that it is to be a member of.
        group_alone = {"group_id": config.get("group_id"), "enable_auto_commit": False}
        self._consumer = made(servers, KafkaConsumer, {**config, **group_alone})
        self._config = config
        self._admin: Any = None

    @override
    def partitions(self, topics: Sequence[str], pattern: str | None) -> list[Partition]:
        until = time.monotonic() + PATIENCE / 1000
        while True:
            try:
                with Failures(self._servers):
                    if self._admin is None:
                        self._admin = made(self._servers, KafkaAdminClient, self._config)
                    wanted = matching(self._admin.list_topics(), topics, pattern, self._servers)
                    described = self._admin.describe_topics(wanted) if wanted else []
                break
            except KafkaUnreachable:
                if time.monotonic() > until:
                    raise
                time.sleep(_PAUSE)
        return sorted(
            Partition(str(topic["name"]), int(one["partition_index"]))
            for topic in described
            for one in topic["partitions"]
        )

    @override
    def earliest(self, partition: Partition) -> int:
        at = TopicPartition(*partition)
        with Failures(self._servers):
            return int(self._consumer.beginning_offsets([at], timeout_ms=PATIENCE)[at])

    @override
    def latest(self, partitions: Sequence[Partition]) -> dict[Partition, int]:
        asked = [TopicPartition(*partition) for partition in partitions]
        with Failures(self._servers):
            found = self._consumer.end_offsets(asked, timeout_ms=PATIENCE)
        return {Partition(*at): offset for at, offset in found.items()}

    @override
    def at_time(self, partition: Partition, millis: int) -> int | None:
        at = TopicPartition(*partition)
        with Failures(self._servers):
            found = self._consumer.offsets_for_times({at: millis}, timeout_ms=PATIENCE)[at]
        return None if found is None else int(found.offset)

    @override
    def committed(self, partition: Partition) -> int | None:
        with Failures(self._servers):
            found = self._consumer.committed(TopicPartition(*partition), timeout_ms=PATIENCE)
        return None if found is None or found < 0 else int(found)

    @override
    def commit(self, offsets: Mapping[Partition, int]) -> None:
        wanted = {
            TopicPartition(*partition): OffsetAndMetadata(offset, "", -1)
            for partition, offset in offsets.items()
        }
        with Failures(self._servers):
            self._consumer.commit(wanted, timeout_ms=PATIENCE)

    @override
    def close(self) -> None:
        self._consumer.close(autocommit=False)
        if self._admin is not None:
            self._admin.close()


class KafkaPythonRecords(RecordReader):
    """Fetches records by a consumer of kafka-python."""

    def __init__(self, servers: str, config: Mapping[str, Any], *, headers: bool) -> None:
        self._servers = servers
        self._consumer = made(servers, KafkaConsumer, config)
        self._headers = headers
        # The offsets that come next, as they were told.
        self._told: dict[TopicPartition, int] = {}

    @override
    def follow(self, partition: Partition, offset: int) -> None:
        at = TopicPartition(*partition)
        if at not in self._told:
            self._consumer.assign([*self._told, at])
        self._told[at] = offset
        self._consumer.seek(at, offset)

    @override
    def leave(self, partition: Partition) -> None:
        if self._told.pop(TopicPartition(*partition), None) is not None:
            self._consumer.assign(list(self._told))

    @override
    def pause(self, partition: Partition) -> None:
        self._consumer.pause(TopicPartition(*partition))

    @override
    def resume(self, partition: Partition) -> None:
        self._consumer.resume(TopicPartition(*partition))

    @override
    def poll(self, seconds: float, most: int) -> Iterator[FetchedRecords | LostRecords]:
        if not self._told:
            return
        try:
            with Failures(self._servers):
                found = self._consumer.poll(int(seconds * 1000), max_records=most)
        except KafkaUnreachable:
            return  # it goes on by itself
        except KafkaDataLost as error:
            # Raised only if nothing else has come. It tells the partitions in any collection.
            lost = error.__cause__.args[0]  # type: ignore[union-attr] # the library's
            yield from (LostRecords(Partition(*at), error) for at in lost)
            return
        for at, records in found.items():
            self._told[at] = records[-1].offset + 1
            yield self._fetched(Partition(*at), records)
        if not found:
            yield from self._beyond()

    def _beyond(self) -> Iterator[FetchedRecords]:
        """How far it has got where there were no records, but marks of transactions."""
        for at, told in self._told.items():
            with Failures(self._servers):
                position = self._consumer.position(at, timeout_ms=0)
            if position is not None and position > told:
                self._told[at] = position
                yield nothing(Partition(*at), position)

    def _fetched(self, partition: Partition, records: list[Any]) -> FetchedRecords:
        headers: Sequence[Headers] = ()
        if self._headers:
            headers = [tuple(one.headers) if one.headers else NO_HEADERS for one in records]
        return FetchedRecords(
            partition,
            [one.offset for one in records],
            [NO_TIME if one.timestamp is None else one.timestamp for one in records],
            [one.key for one in records],
            [one.value for one in records],
            headers,
            records[-1].offset + 1,
        )

    @override
    def end(self, partition: Partition) -> int | None:
        at = TopicPartition(*partition)
        if at not in self._told:
            return None
        return self._consumer.highwater(at)

    @override
    def close(self) -> None:
        self._consumer.close(autocommit=False)
