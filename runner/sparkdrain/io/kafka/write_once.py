"""Writing exactly once: by transactions, of records that a checkpoint has.

Records are numbered, in groups, as part of the job's state. Then they wait until a checkpoint has
them with their numbers (``StableParDo``), so they never come otherwise again. What comes is
published group by group: a transaction writes the records and the number that comes next, so the
brokers know what is there already, whoever died when. See ``outbox``.
"""

from __future__ import annotations

import zlib
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import apache_beam as beam
from apache_beam.coders import VarIntCoder
from apache_beam.metrics import Metrics
from apache_beam.transforms.userstate import ReadModifyWriteStateSpec
from apache_beam.transforms.window import GlobalWindows

from sparkdrain.io.kafka import choose
from sparkdrain.io.kafka.client import Partition
from sparkdrain.io.kafka.errors import KafkaRefused
from sparkdrain.io.kafka.outbox import Older, Outbox, Verdict, decide
from sparkdrain.io.kafka.patience import patiently
from sparkdrain.io.kafka.records import ProducerRecord
from sparkdrain.io.stable import StableParDo

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sparkdrain.io.kafka.client import OpenTransactions
    from sparkdrain.io.kafka.settings import Settings
    from sparkdrain.io.kafka.write import Encoding

NAMESPACE: Final = "sparkdrain.io.kafka"
_WHY: Final = {
    Verdict.GAP: "the brokers lack records that were published before: their number is {recorded}, "
    "and {first} comes next. The group's offset was reset, or the name belongs to another job too",
    Verdict.FORGOTTEN: "the brokers have forgotten how much was published (the offsets of a group "
    "expire after offsets.retention.minutes without use), so it cannot be told whether {first} "
    "and what follows is there",
}


class Transactional:
    """How a sink reaches the brokers.

    Args:
        settings: of the client.
        name: of the sink; it and a group make a transactional id.
        topic: one that there is.
    """

    def __init__(self, settings: Settings, name: str, topic: str) -> None:
        self._settings = settings
        self._name = name
        self._topic = topic

    def open(self, group: int) -> OpenTransactions:
        """The transactions of a group; nobody else can go on with theirs."""
        client = choose.open_client(self._settings)
        transactions = client.transactions(self.ident(group), Partition(self._topic, 0))
        try:
            transactions.fence()
        except BaseException:
            transactions.close()
            raise
        return transactions

    def ident(self, group: int) -> str:
        """The transactional id of a group."""
        return f"{self._name}-{group}"


class WriteOnce(beam.PTransform):
    """Records, exactly once.

    Args:
        transactional: how brokers are reached.
        encoding: what becomes of elements.
        groups: how many transactions there may be at a time.
        event_time: whether a record without a timestamp gets that of its element.
    """

    def __init__(
        self,
        transactional: Transactional,
        encoding: Encoding,
        groups: int,
        *,
        event_time: bool,
    ) -> None:
        super().__init__()
        self._transactional = transactional
        self._encoding = encoding
        self._groups = groups
        self._event_time = event_time

    def expand(self, records: beam.PCollection) -> beam.PCollection:
        """See Beam's."""
        grouped = tuple[int, ProducerRecord]
        return (
            records
            | "Everywhere" >> beam.WindowInto(GlobalWindows())
            | "Group"
            >> beam.ParDo(
                Group(self._encoding, self._groups, event_time=self._event_time)
            ).with_output_types(grouped)
            | "Number"
            >> beam.ParDo(Number(self._transactional)).with_output_types(
                tuple[int, tuple[int, ProducerRecord]]
            )
            | "Publish" >> StableParDo(Publish(self._transactional))
        )


class Group(beam.DoFn):
    """Encodes records, and deals them out over groups: those of a key to the same one."""

    def __init__(self, encoding: Encoding, groups: int, *, event_time: bool) -> None:
        self._encoding = encoding
        self._groups = groups
        self._event_time = event_time

    def process(
        self, element: Any, timestamp: Any = beam.DoFn.TimestampParam
    ) -> Iterator[tuple[int, ProducerRecord]]:
        """See Beam's."""
        record = self._encoding.record(element)
        if self._event_time and record.timestamp is None:
            record = record._replace(timestamp=timestamp.micros // 1000)
        key = record.key if record.key is not None else record.value or b""
        yield zlib.crc32(key) % self._groups, record


class Number(beam.DoFn):
    """Numbers the records of a group, on from what the brokers have of it when the job begins."""

    NEXT = ReadModifyWriteStateSpec("next", VarIntCoder())

    def __init__(self, transactional: Transactional) -> None:
        self._transactional = transactional

    def process(
        self, element: tuple[int, ProducerRecord], next_: Any = beam.DoFn.StateParam(NEXT)
    ) -> Iterator[tuple[int, tuple[int, ProducerRecord]]]:
        """See Beam's."""
        group, record = element
        number = next_.read()
        if number is None:
            number = patiently(partial(self._begin, group), _nothing)
        next_.write(number + 1)
        yield group, (number, record)

    def _begin(self, group: int) -> int:
        transactions = self._transactional.open(group)
        try:
            return transactions.recorded() or 0
        finally:
            transactions.close()


def _nothing() -> None:
    """``_begin`` leaves nothing."""


class Publish(beam.DoFn):
    """Publishes numbered records, a transaction for each group and bundle."""

    def __init__(self, transactional: Transactional) -> None:
        self._transactional = transactional
        self._open: dict[int, tuple[OpenTransactions, int | None]] = {}
        self._waiting: dict[int, list[tuple[int, ProducerRecord]]] = {}
        self._written = Metrics.counter(NAMESPACE, "records_written")
        self._known = Metrics.counter(NAMESPACE, "records_already_there")

    def start_bundle(self) -> None:
        """See Beam's."""
        self._waiting = {}

    def process(self, element: tuple[int, tuple[int, ProducerRecord]]) -> None:
        """See Beam's."""
        group, numbered = element
        self._waiting.setdefault(group, []).append(numbered)

    def finish_bundle(self) -> None:
        """See Beam's."""
        for group, numbered in self._waiting.items():
            # Whether it is there after a failure is for the next attempt to find out.
            patiently(partial(self._publish, group, numbered), partial(self._let_go, group))
        self._waiting = {}

    def _publish(self, group: int, numbered: list[tuple[int, ProducerRecord]]) -> None:
        numbered.sort(key=lambda entry: entry[0])
        first, last = numbered[0][0], numbered[-1][0]
        assert last - first + 1 == len(numbered), "numbers of a group have no gaps"
        if group not in self._open:
            transactions = self._transactional.open(group)
            self._open[group] = transactions, None  # `_let_go` closes them if the next call fails
            self._open[group] = transactions, transactions.recorded()
        transactions, recorded = self._open[group]
        # What comes again is the same, so it need not be published again.
        decision = decide(Outbox(first, last + 1), recorded, Older.SKIP)
        if isinstance(decision, Verdict):
            ident = self._transactional.ident(group)
            why = _WHY[decision].format(recorded=recorded, first=first)
            msg = f"{ident!r} publishes nothing: {why}"
            raise KafkaRefused(msg)
        if decision.entries:
            transactions.begin()
            for _, record in numbered[decision.entries.start - first :]:
                transactions.send(record)
            transactions.record(decision.record)
            transactions.commit()
        self._open[group] = transactions, decision.record
        self._written.inc(len(decision.entries))
        self._known.inc(len(numbered) - len(decision.entries))

    def _let_go(self, group: int) -> None:
        transactions, _ = self._open.pop(group, (None, None))
        if transactions is not None:
            transactions.close()

    def teardown(self) -> None:
        """See Beam's."""
        for group in list(self._open):
            self._let_go(group)
