"""``ReadFromKafka``."""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, Any, Literal
from uuid import uuid4

import apache_beam as beam
from apache_beam.typehints import typehints
from typing_extensions import override

from sparkdrain.errors import BadOption
from sparkdrain.io.kafka import choose
from sparkdrain.io.kafka.discovery import FindPartitions, Topics, WatchPartitions
from sparkdrain.io.kafka.positions import GivenPosition, position
from sparkdrain.io.kafka.read_partition import reader
from sparkdrain.io.kafka.records import BadRecord, KafkaRecord
from sparkdrain.io.kafka.settings import CONSUMER, settings
from sparkdrain.io.kafka.shared import Wanted
from sparkdrain.io.kafka.spans import SpansOf
from sparkdrain.io.kafka.unpack import BAD, UnpackPairs, UnpackRecords
from sparkdrain.io.kafka.watermarks import Watermarks

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from apache_beam.coders import Coder


class ReadFromKafka(beam.PTransform):
    """Reads topics of Kafka: pairs of key and value, or `KafkaRecord` with ``with_metadata``.

    The timestamp of an element is that of its record. Without ``stop`` the result is unbounded.

    Args:
        bootstrap_servers: ``host:port`` of brokers: a list, or separated by commas.
        topics: names of topics.
        pattern: a regular expression that whole names of topics match, instead.
        start: where to begin in partitions that are there when the pipeline starts: `earliest`,
            `latest`, `committed` (for the group in ``consumer_config``; where nothing was
            committed, at the earliest), a datetime or Timestamp (the first record of that time
            or later), or offsets as ``{(topic, partition): offset}``, which also says that no
            other partitions are read.
        stop: where to end, in the same words; `latest` is what that is when reading starts.
        with_metadata: whether elements are `KafkaRecord`.
        key_coder: decodes keys; by default they are bytes. A null key is None.
        value_coder: decodes values; by default they are bytes. A null value is None.
        watermarks: what records tell of those that are still to come.
        discover_every: seconds after which to look for new partitions, and with a pattern for
            new topics; these are read from their beginning. None never looks again. The
            watermark is as many seconds behind the clock at least.
        commit_offsets: whether offsets are committed for the group in ``consumer_config`` once
            what was read before them is safe. Nothing depends on them but ``start='committed'``.
        on_lost: what to do if records were deleted before they were read: `fail`, or `skip` to
            the first one that there is.
        consumer_config: settings of the client, under Kafka's names (`security.protocol`).
        client: `kafka-python`, `confluent-kafka`, or the fastest one that is installed: `auto`.

    Raises:
        BadOption: arguments that contradict each other or mean nothing.
    """

    def __init__(
        self,
        bootstrap_servers: str | list[str],
        topics: str | Sequence[str] | None = None,
        *,
        pattern: str | None = None,
        start: GivenPosition = "earliest",
        stop: GivenPosition | None = None,
        with_metadata: bool = False,
        key_coder: Coder | None = None,
        value_coder: Coder | None = None,
        watermarks: Watermarks | None = None,
        discover_every: float | None = 1.0,
        commit_offsets: bool = False,
        on_lost: Literal["fail", "skip"] = "fail",
        consumer_config: Mapping[str, Any] | None = None,
        client: str = "auto",
    ) -> None:
        super().__init__()
        self._settings = settings(bootstrap_servers, consumer_config, client, CONSUMER)
        choose.check(self._settings)
        self._start = position(start, "start")
        self._stop = None if stop is None else position(stop, "stop")
        names = (topics,) if isinstance(topics, str) else tuple(topics or ())
        self._topics = Topics(names, pattern, (self._start, self._stop))
        self._with_metadata = with_metadata
        self._key_coder = key_coder
        self._value_coder = value_coder
        self._watermarks = watermarks or Watermarks()
        self._discover_every = discover_every if stop is None else None
        self._commit = commit_offsets
        self._on_lost = on_lost
        self._set_aside = False
        self._check()

    def _check(self) -> None:
        if bool(self._topics.names) == (self._topics.pattern is not None):
            msg = "ReadFromKafka takes either topics= or pattern=, one of them"
            raise BadOption(msg)
        committed = "committed" in (self._start.kind, self._stop and self._stop.kind)
        if (committed or self._commit) and not self._settings.group:
            msg = "committed offsets are those of a group: set consumer_config={'group.id': ...}"
            raise BadOption(msg)
        if self._stop is not None and self._stop.kind in ("earliest", "committed"):
            msg = f"stop={self._stop.kind!r} is no end: use 'latest', a time, or offsets"
            raise BadOption(msg)
        if self._commit and self._stop is not None:
            msg = "commit_offsets is for reading without stop=: a bounded read commits nothing"
            raise BadOption(msg)
        if self._on_lost not in ("fail", "skip"):
            msg = f"on_lost={self._on_lost!r} is neither 'fail' nor 'skip'"
            raise BadOption(msg)
        if self._discover_every is not None and self._discover_every <= 0:
            msg = f"discover_every={self._discover_every} is no number of seconds"
            raise BadOption(msg)

    def with_exception_handling(self) -> ReadFromKafka:
        """Sets records aside that cannot be decoded, as Beam's transforms do.

        Returns:
            A transform whose result is a pair: the good elements, and `BadRecord` for each of
            the others.
        """
        changed = copy(self)
        changed._set_aside = True  # noqa: SLF001 - its own
        return changed

    @override
    def expand(self, begin: beam.pvalue.PBegin) -> Any:
        headers = self._with_metadata or self._set_aside
        wanted = Wanted(choose.KafkaService(self._settings), headers, uuid4().hex)
        spans = SpansOf(wanted, self._start, self._stop)
        dofn = reader(
            wanted,
            spans,
            self._watermarks,
            bounded=self._stop is not None,
            commit=self._commit,
            skip_lost=self._on_lost == "skip",
        )
        finder = (
            FindPartitions(wanted, self._topics)
            if self._discover_every is None
            else WatchPartitions(wanted, self._topics, self._discover_every, self._watermarks)
        )
        batches = (
            begin
            | "Impulse" >> beam.Impulse()
            | "Partitions" >> beam.ParDo(finder).with_output_types(tuple[str, int, bool])
            | "Fetch" >> beam.ParDo(dofn).with_output_types(typehints.Any)
        )
        return self._unpacked(batches)

    def _unpacked(self, batches: beam.PCollection) -> Any:
        kind: Any = KafkaRecord
        if not self._with_metadata:
            kind = typehints.Tuple[_decoded(self._key_coder), _decoded(self._value_coder)]
        decodes = self._key_coder is not None or self._value_coder is not None
        if not (decodes or self._with_metadata or self._set_aside):
            return batches | "Unpack" >> beam.ParDo(UnpackPairs()).with_output_types(kind)
        dofn = UnpackRecords(
            self._key_coder,
            self._value_coder,
            with_metadata=self._with_metadata,
            set_aside=self._set_aside,
        )
        if not self._set_aside:
            return batches | "Unpack" >> beam.ParDo(dofn).with_output_types(kind)
        outputs = batches | "Unpack" >> beam.ParDo(dofn).with_outputs(BAD, main="good")
        outputs.good.element_type = kind
        outputs[BAD].element_type = BadRecord
        return outputs.good, outputs[BAD]


def _decoded(coder: Coder | None) -> Any:
    """The type of what a coder makes, or None."""
    if coder is None:
        return typehints.Optional[bytes]
    try:
        kind = coder.to_type_hint()
    except NotImplementedError:
        return typehints.Any
    return typehints.Any if kind is typehints.Any else typehints.Optional[kind]
