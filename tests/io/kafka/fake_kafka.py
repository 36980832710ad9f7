"""Brokers in this process, behind the client protocol."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sparkdrain.io.kafka.client import (
    NO_HEADERS,
    FetchedRecords,
    Headers,
    LostRecords,
    Partition,
    Sent,
    ServiceTime,
    matching,
    nothing,
)
from sparkdrain.io.kafka.errors import KafkaDataLost, KafkaUnreachable, KafkaWriteFailed
from sparkdrain.io.kafka.note import Recorded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from sparkdrain.io.kafka.settings import Settings


@dataclass(frozen=True)
class Stored:
    """A record in a partition."""

    offset: int
    time: int = 0
    key: bytes | None = None
    value: bytes | None = None
    headers: Headers = NO_HEADERS


@dataclass
class Log:
    """A partition: offsets in [earliest, latest), not all of which have a record."""

    records: list[Stored] = field(default_factory=list)
    earliest: int = 0
    latest: int = 0


class FakeKafka:
    """Topics and groups; a client for each that asks."""

    def __init__(self) -> None:
        self.logs: dict[Partition, Log] = {}
        self.groups: dict[Partition, int] = {}
        self.away = False
        self.refuses: str | None = None
        self.lost_commits = 0
        self.now: Callable[[], float] | None = time.time
        """The clock of the brokers; None: they do not tell it."""
        self.hours = 0
        """How often they were asked for their time."""
        self.opened = 0
        self.closed = 0
        self.follows = 0
        self.recorded: dict[str, Recorded] = {}
        """What transactions have recorded last, by transactional id."""
        self.epochs: Counter[str] = Counter()
        self.before: Callable[[str], None] = lambda step: None
        """Called before each step of a transaction, and with "committed" after the last."""

    @property
    def numbers(self) -> dict[str, int]:
        """The numbers that transactions have recorded last, by transactional id."""
        return {ident: recorded.number for ident, recorded in self.recorded.items()}

    def topic(self, name: str, partitions: int = 1) -> None:
        for number in range(partitions):
            self.logs.setdefault(Partition(name, number), Log())

    def put(self, topic: str, number: int, *values: bytes | None, **rest: object) -> None:
        log = self.logs[Partition(topic, number)]
        for value in values:
            log.records.append(Stored(log.latest, value=value, **rest))
            log.latest += 1

    def skip(self, topic: str, number: int, offsets: int = 1) -> None:
        """Offsets without a record, as transactions leave them."""
        self.logs[Partition(topic, number)].latest += offsets

    def delete_before(self, topic: str, number: int, offset: int) -> None:
        log = self.logs[Partition(topic, number)]
        log.earliest = offset
        log.records = [one for one in log.records if one.offset >= offset]

    def values(self, topic: str) -> list[bytes | None]:
        return [
            record.value
            for partition, log in sorted(self.logs.items())
            if partition.topic == topic
            for record in log.records
        ]

    def open_client(self, settings: Settings) -> FakeClient:
        return FakeClient(self, settings)

    def check(self) -> None:
        if self.away:
            msg = "nobody there"
            raise KafkaUnreachable(msg)


class FakeClient:
    def __init__(self, kafka: FakeKafka, settings: Settings) -> None:
        self.kafka = kafka
        self.settings = settings

    def catalog(self) -> FakeCatalog:
        return FakeCatalog(self.kafka)

    def records(self, *, headers: bool) -> FakeRecords:
        return FakeRecords(self.kafka, headers=headers)

    def clock(self) -> FakeClock:
        return FakeClock(self.kafka)

    def sink(self, *, tell: bool) -> FakeSink:
        return FakeSink(self.kafka, tell=tell)

    def transactions(self, ident: str, mark: Partition) -> FakeTransactions:
        assert mark in self.kafka.logs
        return FakeTransactions(self.kafka, ident)


class Closing:
    def __init__(self, kafka: FakeKafka) -> None:
        self.kafka = kafka
        kafka.opened += 1

    def close(self) -> None:
        self.kafka.closed += 1


class FakeCatalog(Closing):
    def partitions(self, topics: Sequence[str], pattern: str | None) -> list[Partition]:
        self.kafka.check()
        wanted = matching({at.topic for at in self.kafka.logs}, topics, pattern, "fake")
        return sorted(at for at in self.kafka.logs if at.topic in wanted)

    def earliest(self, partition: Partition) -> int:
        self.kafka.check()
        return self.kafka.logs[partition].earliest

    def latest(self, partitions: Sequence[Partition]) -> dict[Partition, int]:
        self.kafka.check()
        return {at: self.kafka.logs[at].latest for at in partitions}

    def at_time(self, partition: Partition, millis: int) -> int | None:
        self.kafka.check()
        records = self.kafka.logs[partition].records
        return next((one.offset for one in records if one.time >= millis), None)

    def committed(self, partition: Partition) -> int | None:
        self.kafka.check()
        return self.kafka.groups.get(partition)

    def commit(self, offsets: Mapping[Partition, int]) -> None:
        self.kafka.check()
        if self.kafka.lost_commits:
            self.kafka.lost_commits -= 1
            msg = "the coordinator is loading"
            raise KafkaUnreachable(msg)
        self.kafka.groups.update(offsets)


class FakeClock(Closing):
    def time(self, topics: Sequence[str]) -> ServiceTime:
        self.kafka.hours += 1
        self.kafka.check()
        if self.kafka.now is not None:
            return ServiceTime(self.kafka.now())
        logs = [log for at, log in self.kafka.logs.items() if at.topic in topics]
        newest = max((record.time for log in logs for record in log.records), default=None)
        return ServiceTime(newest and newest / 1000, "fake does not tell its time")


class FakeRecords(Closing):
    """Hands out records of its partitions in turn."""

    def __init__(self, kafka: FakeKafka, *, headers: bool) -> None:
        super().__init__(kafka)
        self.headers = headers
        self.next: dict[Partition, int] = {}
        self.paused: set[Partition] = set()
        self.most = 1_000_000

    def follow(self, partition: Partition, offset: int) -> None:
        self.kafka.follows += 1
        self.next[partition] = offset

    def leave(self, partition: Partition) -> None:
        self.next.pop(partition, None)

    def pause(self, partition: Partition) -> None:
        self.paused.add(partition)

    def resume(self, partition: Partition) -> None:
        self.paused.discard(partition)

    def poll(self, seconds: float, most: int) -> Iterator[FetchedRecords | LostRecords]:
        batches = [] if self.kafka.away else list(self._poll(most))
        if not batches:
            time.sleep(seconds)  # as long as a broker would keep it
        yield from batches

    def _poll(self, most: int) -> Iterator[FetchedRecords | LostRecords]:
        for partition, begin in sorted(self.next.items()):
            log = self.kafka.logs[partition]
            if partition in self.paused:
                continue
            if not log.earliest <= begin <= log.latest:
                yield LostRecords(partition, KafkaDataLost(str(partition)))
                continue
            found = [one for one in log.records if one.offset >= begin][: min(most, self.most)]
            if found:
                self.next[partition] = found[-1].offset + 1
                yield self._batch(partition, found)
            elif log.latest > begin:
                self.next[partition] = log.latest
                yield nothing(partition, log.latest)

    def _batch(self, partition: Partition, found: list[Stored]) -> FetchedRecords:
        return FetchedRecords(
            partition,
            [one.offset for one in found],
            [one.time for one in found],
            [one.key for one in found],
            [one.value for one in found],
            [one.headers for one in found] if self.headers else (),
            found[-1].offset + 1,
        )

    def end(self, partition: Partition) -> int | None:
        return self.kafka.logs[partition].latest if partition in self.next else None


class FakeSink(Closing):
    def __init__(self, kafka: FakeKafka, *, tell: bool) -> None:
        super().__init__(kafka)
        self.tell = tell
        self.queued: list[tuple[Partition, Stored]] = []

    def send(
        self,
        topic: str,
        partition: int | None,
        key: bytes | None,
        value: bytes | None,
        headers: Headers,
        millis: int | None,
    ) -> None:
        at = Partition(topic, sum(key or b"") % self.partitions(topic))
        at = at if partition is None else at._replace(number=partition)
        time = 0 if millis is None else millis
        self.queued.append((at, Stored(0, time, key, value, tuple(headers))))

    def flush(self) -> list[Sent]:
        queued, self.queued = self.queued, []
        if self.kafka.refuses is not None:
            raise KafkaWriteFailed(self.kafka.refuses)
        sums: dict[Partition, list[int]] = defaultdict(list)
        for at, record in queued:
            log = self.kafka.logs[at]
            stored = Stored(log.latest, record.time, record.key, record.value, record.headers)
            log.records.append(stored)
            sums[at].append(log.latest)
            log.latest += 1
        return [Sent(at, len(offsets), offsets[-1]) for at, offsets in sorted(sums.items())]

    def forget(self) -> None:
        self.queued.clear()

    def partitions(self, topic: str) -> int:
        return sum(at.topic == topic for at in self.kafka.logs)


class FakeTransactions(Closing):
    """Of one id; what was not committed is nowhere."""

    def __init__(self, kafka: FakeKafka, ident: str) -> None:
        super().__init__(kafka)
        self._ident = ident
        self._epoch = 0
        self._sink = FakeSink(kafka, tell=False)
        self._recorded = Recorded(0)
        kafka.opened -= 1  # the sink is part of this

    def fence(self) -> None:
        self.kafka.before("fence")
        self.kafka.epochs[self._ident] += 1
        self._epoch = self.kafka.epochs[self._ident]

    def recorded(self) -> Recorded | None:
        self.kafka.before("recorded")
        return self.kafka.recorded.get(self._ident)

    def begin(self) -> None:
        self.kafka.before("begin")
        self._sink.forget()

    def send(
        self,
        topic: str,
        partition: int | None,
        key: bytes | None,
        value: bytes | None,
        headers: Headers,
        millis: int | None,
    ) -> None:
        self.kafka.before("send")
        assert topic is not None
        self._sink.send(topic, partition, key, value, headers, millis)

    def record(self, recorded: Recorded) -> None:
        self.kafka.before("record")
        self._recorded = recorded

    def commit(self) -> None:
        self.kafka.before("commit")
        if self._epoch != self.kafka.epochs[self._ident]:
            msg = "another producer has this id"
            raise KafkaWriteFailed(msg)
        self._sink.flush()
        self.kafka.recorded[self._ident] = self._recorded
        self.kafka.before("committed")
