"""Writing exactly once: by transactions, of records that a checkpoint has.

Records are numbered, in groups, as part of the job's state. Then they wait until a checkpoint has
them with their numbers (``StableParDo``), so they never come otherwise again. What comes is
published group by group. A transaction writes the records and what the brokers are to know of them:
the number that comes next, the owner, and a digest of everything published. See ``outbox``.
"""

from __future__ import annotations

import json
import logging
import os
import zlib
from collections import defaultdict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

import apache_beam as beam
from apache_beam.coders import BytesCoder, VarIntCoder
from apache_beam.metrics import Metrics
from apache_beam.options.pipeline_options import GoogleCloudOptions
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.transforms.userstate import ReadModifyWriteStateSpec, TimerSpec, on_timer
from apache_beam.transforms.window import GlobalWindow, GlobalWindows
from typing_extensions import override

from sparkdrain.io.kafka import choose
from sparkdrain.io.kafka.client import NAMESPACE, Partition
from sparkdrain.io.kafka.errors import KafkaFailed, KafkaRefused
from sparkdrain.io.kafka.note import Note, OwnerStage, Recorded
from sparkdrain.io.kafka.outbox import (
    OWNER_BYTES,
    History,
    NumberedRecords,
    RecordStamp,
    Refusal,
    decide,
    grow,
    may_begin,
    read_stamp,
)
from sparkdrain.io.kafka.overrule import overruled, refusal
from sparkdrain.io.kafka.patience import patiently
from sparkdrain.io.kafka.records import ProducerRecord
from sparkdrain.io.stable import OVERRULED, SINK, StableParDo

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Set

    from apache_beam.options.pipeline_options import PipelineOptions

    from sparkdrain.io.kafka.client import Transactions
    from sparkdrain.io.kafka.encoding import Encoding
    from sparkdrain.io.kafka.settings import Settings

_LOGGER = logging.getLogger(__name__)
# What is numbered: a record with its stamp beside its key, or as the key alone where all ends.
# Records that were numbered by a release without stamps have their keys as they are.
Numbered = tuple[int, tuple[int, ProducerRecord]]
# In place of a record: the group has begun. Records have topics.
_BEGIN: Final = ProducerRecord(None, None)


@dataclass(frozen=True)
class Transactional:
    """How a sink reaches the brokers.

    Attributes:
        settings: how a client reaches the brokers.
        name: what the user calls the sink; it and a group make a transactional id.
        topic: one that there is.
        job: name of the job, for other jobs that find its records; may be empty.
        overruled: names of sinks that publish where the brokers' record speaks against it.
    """

    settings: Settings
    name: str
    topic: str
    job: str = ""
    overruled: Sequence[str] = ()

    def told(self, options: PipelineOptions) -> Transactional:
        """The same, for a job with these options.

        Raises:
            BadOption: they cannot be used.
        """
        job = options.view_as(GoogleCloudOptions).job_name or ""
        return replace(self, job=job, overruled=overruled(options))

    def annotations(self) -> dict[str, str]:
        """Annotations of a transform, by which the runner refuses names that cannot be."""
        return {SINK: self.name, OVERRULED: json.dumps(self.overruled)}

    def open(self, group: int) -> Transactions:
        """The transactions of a group; no other producer can go on with its own from now on."""
        client = choose.open_client(self.settings)
        transactions = client.transactions(self.ident(group), Partition(self.topic, 0))
        try:
            transactions.fence()
        except BaseException:
            transactions.close()
            raise
        return transactions

    def ident(self, group: int) -> str:
        """The transactional id of a group."""
        return f"{self.name}-{group}"

    def record(
        self, history: History, stage: OwnerStage, before: Recorded | None = None
    ) -> Recorded:
        """What the brokers are to know of a group; ``before``, where an owner begins."""
        note = None if before is None else before.note()
        behind = None if note is None else note.published
        text = Note(history.owner, history.digest, stage, self.job, behind).text()
        return Recorded(history.number, text)

    def refuse(
        self, verdict: Refusal, group: int, recorded: Recorded | None, first: int, next_: int
    ) -> None:
        """Refuse to publish, unless that was overruled: then warn.

        Raises:
            KafkaRefused: it was not.
        """
        ident = self.ident(group)
        if self.name not in self.overruled:
            raise KafkaRefused(refusal(verdict, self.name, ident, recorded, first, next_))
        _LOGGER.warning(
            "%r publishes although the brokers' record speaks against it (%s): "
            "records may be written twice. Leave out the option at the next start.",
            ident,
            verdict.value,
        )


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

    @override
    def annotations(self) -> dict[str, str]:
        return self._transactional.annotations()

    @override
    def expand(self, records: beam.PCollection) -> beam.PCollection:
        grouped = tuple[int, ProducerRecord]
        return (
            records
            | "Everywhere" >> beam.WindowInto(GlobalWindows())
            | "Group"
            >> beam.ParDo(
                Group(self._encoding, self._groups, event_time=self._event_time)
            ).with_output_types(grouped)
            | "Number" >> beam.ParDo(Number(self._transactional)).with_output_types(Numbered)
            | "Publish" >> StableParDo(Publish(self._transactional))
        )


class Group(beam.DoFn):
    """Encodes records, and deals them out over groups: those of a key to the same one.

    All groups begin with the first record of any of them. So a checkpoint that has a record has
    the state of all groups, and a job that begins anew hears of each group's reason to refuse
    before it publishes anything.
    """

    def __init__(self, encoding: Encoding, groups: int, *, event_time: bool) -> None:
        self._encoding = encoding
        self._groups = groups
        self._event_time = event_time
        self._has_begun = False

    @override
    def process(
        self, element: Any, timestamp: Any = beam.DoFn.TimestampParam
    ) -> Iterator[tuple[int, ProducerRecord]]:
        if not self._has_begun:
            self._has_begun = True
            for group in range(self._groups):
                yield group, _BEGIN
        record = self._encoding.record(element)
        if self._event_time and record.timestamp is None:
            record = record._replace(timestamp=timestamp.micros // 1000)
        key = record.key if record.key is not None else record.value or b""
        yield zlib.crc32(key) % self._groups, record


class Number(beam.DoFn):
    """Numbers the records of a group, on from what the brokers have of it when the job begins.

    The last thing that it numbers is the end of the group: when the job is drained, or its input
    ends. A job that begins anew may go on behind an end.
    """

    NEXT = ReadModifyWriteStateSpec("next", VarIntCoder())
    """The state of releases that numbered only; it is read, and never written."""
    HISTORY = ReadModifyWriteStateSpec("history", BytesCoder())
    END = TimerSpec("end", TimeDomain.WATERMARK)

    def __init__(self, transactional: Transactional) -> None:
        self._transactional = transactional

    @override
    def process(
        self,
        element: tuple[int, ProducerRecord],
        next_: Any = beam.DoFn.StateParam(NEXT),
        kept: Any = beam.DoFn.StateParam(HISTORY),
        end: Any = beam.DoFn.TimerParam(END),
    ) -> Iterable[Numbered]:
        group, record = element
        state = kept.read()
        if state is None:
            state = self._first(group, next_.read()).packed()
            end.set(GlobalWindow().max_timestamp())
            kept.write(state)
        key, value, topic, partition, timestamp, headers = record
        if topic is None:
            return ()
        number, stamp, state = grow(state, record)
        kept.write(state)
        stamped = ProducerRecord((stamp, key), value, topic, partition, timestamp, headers)
        return ((group, (number, stamped)),)

    @on_timer(END)
    def end(
        self,
        group: int = beam.DoFn.KeyParam,
        kept: Any = beam.DoFn.StateParam(HISTORY),
    ) -> Iterator[Numbered]:
        """Number the end of a group."""
        number, stamp, state = grow(kept.read(), None)
        kept.write(state)
        yield group, (number, ProducerRecord((stamp,), None))

    def _first(self, group: int, number: int | None) -> History:
        owner = os.urandom(OWNER_BYTES)
        if number is not None:
            # An earlier release has begun here, and what it published is known by number.
            return History.begun(number, owner)
        return patiently(partial(self._begin, group, owner))

    def _begin(self, group: int, owner: bytes) -> History:
        """Begin a history, and tell the brokers: later, a group without a record was forgotten."""
        transactions = self._transactional.open(group)
        try:
            recorded = transactions.recorded()
            number = 0 if recorded is None else recorded.number
            verdict = may_begin(recorded)
            if verdict is not None:
                self._transactional.refuse(verdict, group, recorded, number, number)
            history = History.begun(number, owner)
            transactions.begin()
            transactions.record(self._transactional.record(history, OwnerStage.BEGUN, recorded))
            transactions.commit()
        finally:
            transactions.close()
        if recorded is not None and recorded.is_bare:
            _LOGGER.warning(
                "%r goes on behind %d records of a job that an earlier release has run. "
                "Whether that job was drained is not known.",
                self._transactional.ident(group),
                number,
            )
        return history


class Publish(beam.DoFn):
    """Publishes numbered records, a transaction for each group and bundle."""

    def __init__(self, transactional: Transactional) -> None:
        self._transactional = transactional
        self._open: dict[int, tuple[Transactions, Recorded | None]] = {}
        self._waiting: defaultdict[int, list[tuple[int, ProducerRecord]]] = defaultdict(list)
        self._more = True
        # By group whose brokers have more than has come: what follows the last record that came.
        self._behind: dict[int, int] = {}
        self._written = Metrics.counter(NAMESPACE, "records_written")
        self._known = Metrics.counter(NAMESPACE, "records_already_there")

    @override
    def start_bundle(self) -> None:
        self._waiting.clear()

    @override
    def process(self, element: Numbered) -> None:
        group, numbered = element
        self._waiting[group].append(numbered)

    @override
    def more_is_safe(self, more: bool) -> None:
        self._more = more

    @override
    def finish_bundle(self) -> None:
        self._open_at_once(self._waiting.keys() - self._open.keys())
        for group, numbered in self._waiting.items():
            # Whether it is there after a failure is for the next attempt to find out.
            patiently(partial(self._publish, group, numbered), partial(self._let_go, group))
        self._waiting.clear()
        if not self._more:
            self._check_behind()

    def _open_at_once(self, groups: Set[int]) -> None:
        """Fence groups at the same time: each waits until its brokers end an open transaction.

        A group that cannot be opened is left to ``_publish``, which is patient and tells why.
        """
        if len(groups) > 1:
            with ThreadPoolExecutor(len(groups)) as threads:
                list(threads.map(self._try_to_open, sorted(groups)))

    def _try_to_open(self, group: int) -> None:
        try:
            self._open_group(group)
        except KafkaFailed:
            self._let_go(group)

    def _open_group(self, group: int) -> None:
        transactions = self._transactional.open(group)
        self._open[group] = transactions, None  # `_let_go` closes them if the next call fails
        self._open[group] = transactions, transactions.recorded()

    def _publish(self, group: int, numbered: list[tuple[int, ProducerRecord]]) -> None:
        numbered.sort(key=itemgetter(0))
        first, last = numbered[0][0], numbered[-1][0]
        assert last - first + 1 == len(numbered), "numbers of a group have no gaps"
        if group not in self._open:
            self._open_group(group)
        transactions, recorded = self._open[group]
        batch = NumberedRecords(first, _Stamps(numbered), self._more)
        decision = decide(batch, recorded)
        if isinstance(decision, Refusal):
            self._transactional.refuse(decision, group, recorded, first, batch.next)
            decision = range(first, batch.next)
        ends = 0
        if decision:
            transactions.begin()
            send, new = transactions.send, numbered[decision.start - first :]
            for _, (stamped, value, topic, partition, millis, headers) in new:
                if topic is None:
                    ends += 1
                    continue
                key = stamped[1] if type(stamped) is tuple else stamped
                send(topic, partition, key, value, headers, millis)
            recorded = self._recorded(batch, is_over=topic is None)
            transactions.record(recorded)
            transactions.commit()
        self._open[group] = transactions, recorded
        self._behind.pop(group, None)
        if recorded is not None and recorded.number > batch.next:
            self._behind[group] = batch.next
        self._written.inc(len(decision) - ends)
        self._known.inc(len(numbered) - len(decision))

    def _recorded(self, batch: NumberedRecords, *, is_over: bool) -> Recorded:
        last = batch.stamps[-1]
        if last is None:
            return Recorded(batch.next)  # as the release did that has numbered the records
        stage = OwnerStage.OVER if is_over else OwnerStage.OPEN
        return self._transactional.record(History(batch.next, last.owner, last.after), stage)

    def _check_behind(self) -> None:
        """All records of a checkpoint came: refuse groups where another job has published more."""
        for group, next_ in list(self._behind.items()):
            del self._behind[group]
            _, recorded = self._open[group]
            self._transactional.refuse(Refusal.OLDER, group, recorded, next_, next_)

    def _let_go(self, group: int) -> None:
        transactions, _ = self._open.pop(group, (None, None))
        if transactions is not None:
            transactions.close()

    @override
    def teardown(self) -> None:
        for group in list(self._open):
            self._let_go(group)


class _Stamps(Sequence[RecordStamp | None]):
    """The stamps of numbered records, each read when it is asked for: three of a batch are."""

    def __init__(self, numbered: Sequence[tuple[int, ProducerRecord]]) -> None:
        self._numbered = numbered

    def __len__(self) -> int:
        return len(self._numbered)

    def __getitem__(self, at: Any) -> Any:
        key = self._numbered[at][1].key
        return read_stamp(key[0]) if type(key) is tuple else None
