"""What is asked of a client library for Kafka; everything else is written against this.

What reads partitions asks for a ``LogClient`` only, which Event Hubs has, too.

A client hands records over in columns, so that none of them needs an object of its own.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from sparkdrain.io.kafka.errors import KafkaRefused

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from sparkdrain.io.errors import RecordsLost
    from sparkdrain.io.kafka.note import Recorded

NAMESPACE: Final = "sparkdrain.io.kafka"
"""That of metrics."""
Headers = tuple[tuple[str, bytes | None], ...]
NO_HEADERS: Final[Headers] = ()
NO_TIME: Final = -1
"""The timestamp of a record that has none."""


class Partition(NamedTuple):
    """A partition of a topic."""

    topic: str
    number: int

    def __str__(self) -> str:
        return f"{self.topic}[{self.number}]"


@dataclass(frozen=True, slots=True)
class FetchedRecords:
    """Records of one partition in the order of their offsets, column by column.

    Attributes:
        partition: that they are of.
        offsets: strictly increasing; there may be gaps.
        times: milliseconds since 1970, or ``NO_TIME``.
        keys: one for each record, as bytes or None.
        values: one for each record, as bytes or None.
        headers: one tuple for each record; empty if headers were not asked for.
        after: the first offset that is not known yet: beyond the last record, and beyond what
            follows it that is no record.
    """

    partition: Partition
    offsets: Sequence[int]
    times: Sequence[int]
    keys: Sequence[bytes | None]
    values: Sequence[bytes | None]
    headers: Sequence[Headers]
    after: int

    def __len__(self) -> int:
        return len(self.offsets)

    def part(self, begin: int, end: int) -> FetchedRecords:
        """The records from index ``begin`` up to, not including, ``end``."""
        if begin == 0 and end == len(self.offsets):
            return self
        part = slice(begin, end)
        return FetchedRecords(
            self.partition,
            self.offsets[part],
            self.times[part],
            self.keys[part],
            self.values[part],
            self.headers[part],
            self.after if end == len(self.offsets) else self.offsets[end],
        )

    def timed(self, millis: int) -> FetchedRecords:
        """The same with a time for those records that have none."""
        times = [millis if time == NO_TIME else time for time in self.times]
        return replace(self, times=times)


@dataclass(frozen=True, slots=True)
class LostRecords:
    """What a partition has instead of its next records.

    Attributes:
        partition: that is followed no longer.
        error: why the offset that comes next cannot be read.
    """

    partition: Partition
    error: RecordsLost

    def __len__(self) -> int:
        return 0


def nothing(partition: Partition, after: int) -> FetchedRecords:
    """No records, up to ``after``."""
    return FetchedRecords(partition, (), (), (), (), (), after)


class Catalog(Protocol):
    """Answers questions; each takes a round trip to a broker.

    All raise `KafkaUnreachable` and `KafkaRefused`.
    """

    def partitions(self, topics: Sequence[str], pattern: str | None) -> list[Partition]:
        """The partitions of these topics, or of topics whose whole name matches the expression."""

    def earliest(self, partition: Partition) -> int:
        """The offset of the first record that there is."""

    def latest(self, partitions: Sequence[Partition]) -> dict[Partition, int]:
        """The offsets that the next records will have."""

    def at_time(self, partition: Partition, millis: int) -> int | None:
        """The offset of the first record of that time or later; None if there is none."""

    def committed(self, partition: Partition) -> int | None:
        """What was committed for the group in the settings; None if nothing was."""

    def commit(self, offsets: Mapping[Partition, int]) -> None:
        """Commit, for the group in the settings, which offsets are to be read next."""

    def close(self) -> None:
        """Let go of connections."""


@dataclass(frozen=True, slots=True)
class ServiceTime:
    """What a service has said of its time.

    Attributes:
        seconds: since 1970; None if it has said nothing.
        reason: why that is the timestamp of the newest record, or None: the cause, and what makes
            the service tell its time. Empty if it is the time of the service's own clock.
    """

    seconds: float | None
    reason: str = ""


class ServiceClock(Protocol):
    """Asks a service for its time, over a connection of its own; one thread at a time."""

    def time(self, topics: Sequence[str]) -> ServiceTime:
        """What time it is; at least the timestamp of the newest record in these topics.

        Raises:
            Exception: the service could not be asked.
        """

    def close(self) -> None:
        """Let go of connections."""


class RecordReader(Protocol):
    """Fetches records of the partitions that it follows, ahead of time."""

    def follow(self, partition: Partition, offset: int) -> None:
        """Go on with the record at ``offset``, whether the partition was followed or not."""

    def leave(self, partition: Partition) -> None:
        """Follow it no longer."""

    def pause(self, partition: Partition) -> None:
        """Hand out no more of its records until it is resumed."""

    def resume(self, partition: Partition) -> None:
        """Hand out its records again."""

    def poll(self, seconds: float, most: int) -> Iterable[FetchedRecords | LostRecords]:
        """Up to ``most`` records of any partitions; waits so long for the first one.

        What has come of one partition is handed out, whatever is wrong with another.

        Raises:
            KafkaRefused: a broker will not have it. What else has come is handed out before, or
                by the next call.
        """

    def end(self, partition: Partition) -> int | None:
        """The offset after its last record, as the brokers have said lately, if they have."""

    def close(self) -> None:
        """Let go of connections."""


class Sender(Protocol):
    """Takes records."""

    def send(
        self,
        topic: str,
        partition: int | None,
        key: bytes | None,
        value: bytes | None,
        headers: Headers,
        millis: int | None,
    ) -> None:
        """Queue a record; waits while the queue is full."""


class Sink(Sender, Protocol):
    """Sends records."""

    def flush(self) -> list[Sent]:
        """Wait until all that was queued is with the brokers, or is not going to be.

        Returns:
            Where the records are that were sent since the last call, if the sink was opened so.

        Raises:
            KafkaWriteFailed: some are not. The sink is of no use then, but to be closed.
        """

    def forget(self) -> None:
        """What was queued before does not matter any more."""

    def partitions(self, topic: str) -> int:
        """How many partitions a topic has."""

    def close(self) -> None:
        """Let go of connections."""


class Sent(NamedTuple):
    """Records that have arrived in a partition."""

    partition: Partition
    records: int
    last: int


class Transactions(Sender, Protocol):
    """The transactions of one ``transactional.id``, which is that of one group of a sink.

    Records belong to the transaction that was begun last.
    """

    def fence(self) -> None:
        """End the transactions of other producers with this id, now and whenever they try again."""

    def recorded(self) -> Recorded | None:
        """What was recorded last by a transaction that was committed, if anything was."""

    def begin(self) -> None:
        """Begin a transaction."""

    def record(self, recorded: Recorded) -> None:
        """Record this within the transaction."""

    def commit(self) -> None:
        """Make all of it visible, or none: raises if another producer has fenced this one."""

    def close(self) -> None:
        """Let go of connections; the producer that fences an open transaction ends it."""


class LogClient(Protocol):
    """A client library with settings, of any service whose records are in partitions."""

    def catalog(self) -> Catalog:
        """Opens a catalog."""

    def records(self, *, headers: bool) -> RecordReader:
        """Opens a source of records, with or without their headers."""

    def clock(self) -> ServiceClock:
        """Opens what asks for the time.

        Raises:
            BadSetup: nothing that is installed here can ask for it.
        """


class Client(LogClient, Protocol):
    """A client library for Kafka."""

    def sink(self, *, tell: bool) -> Sink:
        """Opens a sink; with ``tell`` it tells where records went."""

    def transactions(self, ident: str, mark: Partition) -> Transactions:
        """Opens transactions of an id.

        Args:
            ident: the transactional id, and the group under which the number is kept.
            mark: a partition that there is, for which the group keeps it as an offset.
        """


def matching(
    known: Iterable[str], topics: Sequence[str], pattern: str | None, servers: str
) -> list[str]:
    """The topics that are wanted and exist, sorted.

    Args:
        known: all that there are.
        topics: wanted by name.
        pattern: a regular expression that the whole name matches; topics of Kafka's own, which
            begin with two underscores, never do.
        servers: for the error.

    Raises:
        KafkaRefused: one of ``topics`` is not there.
    """
    there = set(known)
    missing = sorted(set(topics) - there)
    if missing:
        msg = f"Kafka at {servers} has no topic {', '.join(map(repr, missing))}, or hides it"
        raise KafkaRefused(msg)
    if pattern is None:
        return sorted(set(topics))
    wanted = re.compile(pattern)
    return sorted(name for name in there if not name.startswith("__") and wanted.fullmatch(name))
