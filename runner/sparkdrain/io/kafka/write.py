"""``WriteToKafka``: at least once, or exactly once by ``write_once``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import apache_beam as beam
from apache_beam.metrics import Metrics
from apache_beam.transforms.window import GlobalWindows
from typing_extensions import override

from sparkdrain.errors import BadOption
from sparkdrain.io.kafka import choose
from sparkdrain.io.kafka.client import NAMESPACE, NO_HEADERS
from sparkdrain.io.kafka.encoding import BYTES, Encoding
from sparkdrain.io.kafka.errors import KafkaFailed
from sparkdrain.io.kafka.records import Written
from sparkdrain.io.kafka.settings import PRODUCER, settings
from sparkdrain.io.kafka.write_once import Transactional, WriteOnce

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from apache_beam.coders import Coder

    from sparkdrain.io.kafka.client import Sink
    from sparkdrain.io.kafka.settings import Settings

_GROUPS: Final = 8


class WriteToKafka(beam.PTransform):
    """Writes records: pairs of key and value, or `ProducerRecord`.

    Each record is written at least once: a bundle ends when the brokers have all of its records
    (``acks=all`` by default), and fails if they do not take them. A bundle that is run again
    writes its records again.

    With ``exactly_once``, consumers that read committed records only see each record once. Records
    then wait for a checkpoint, so they come as late as those come. It takes a streaming job with
    ``--checkpoint_dir``; other streaming jobs refuse the requirement of stable input. A batch job
    whose attempt has failed after it published something refuses to publish again.

    Args:
        bootstrap_servers: ``host:port`` of brokers: a list, or separated by commas.
        topic: where records go that do not say so themselves.
        key_coder: encodes keys; by default they are bytes. None is a null key.
        value_coder: encodes values; by default they are bytes. None is a null value.
        partitioner: chooses the partition of a record that does not name one, by the key's bytes
            and the number of partitions; by default as Kafka's own clients do, by murmur2.
        event_time: whether a record that names no timestamp gets that of its element; else it is
            the time of writing.
        with_results: whether the result is a PCollection of `Written`, for every bundle and
            partition; else it is None.
        producer_config: settings of the client, under Kafka's names (`compression.type`).
        client: `kafka-python`, `confluent-kafka`, or the fastest one that is installed: `auto`.
        exactly_once: a name that no other sink of any job has. It is kept from version to version
            of the job; transactional ids and groups begin with it. The sink refuses to publish
            (`KafkaRefused`) if what the brokers have under the name is not what the job has
            published; ``--kafka_publish_anyway`` overrules that.
        groups: with ``exactly_once``, in how many groups records are published, each with
            transactions of its own; 8 if not given. It must not change while a job goes on.

    Raises:
        BadOption: arguments that mean nothing.
    """

    def __init__(
        self,
        bootstrap_servers: str | list[str],
        topic: str | None = None,
        *,
        key_coder: Coder | None = None,
        value_coder: Coder | None = None,
        partitioner: Callable[[bytes | None, int], int] | None = None,
        event_time: bool = False,
        with_results: bool = False,
        producer_config: Mapping[str, Any] | None = None,
        client: str = "auto",
        exactly_once: str | None = None,
        groups: int | None = None,
    ) -> None:
        super().__init__()
        self._settings = settings(bootstrap_servers, producer_config, client, PRODUCER)
        choose.check(self._settings)
        refused = {"with_results": with_results, "partitioner": partitioner is not None}
        _check_once(exactly_once, groups, topic, [name for name, is_ in refused.items() if is_])
        self._once = None
        if exactly_once is not None and topic is not None:
            self._once = Transactional(self._settings, exactly_once, topic)
        self._groups = _GROUPS if groups is None else groups
        if topic is not None and not topic:
            msg = "topic is empty; leave it out if records name their topics themselves"
            raise BadOption(msg)
        self._encoding = Encoding(topic, key_coder, value_coder)
        self._partitioner = partitioner
        self._event_time = event_time
        self._with_results = with_results

    @override
    def expand(self, records: beam.PCollection) -> beam.PCollection | None:
        if self._once is not None:
            once = WriteOnce(
                self._once.told(records.pipeline.options),
                self._encoding,
                self._groups,
                event_time=self._event_time,
            )
            _ = records | "Once" >> once
            return None
        kind = SendTimed if self._event_time else Send
        dofn = kind(self._settings, self._encoding, self._partitioner, tell=self._with_results)
        if self._with_results:
            # What a bundle has written belongs to no window of its elements.
            records = records | beam.WindowInto(GlobalWindows())
        written = records | "Send" >> beam.ParDo(dofn).with_output_types(Written)
        return written if self._with_results else None


def _check_once(
    name: str | None, groups: int | None, topic: str | None, refused: list[str]
) -> None:
    if name is None:
        if groups is not None:
            msg = "groups is for exactly_once: give both, or none of them"
            raise BadOption(msg)
        return
    if not name.strip():
        msg = "exactly_once is blank: give the sink a name that no other has"
        raise BadOption(msg)
    if topic is None:
        msg = "exactly_once needs topic: what was published is noted for a partition of it"
        raise BadOption(msg)
    if groups is not None and groups < 1:
        msg = f"groups is {groups}: there must be one at least"
        raise BadOption(msg)
    if refused:
        msg = f"{refused[0]} does not go with exactly_once: leave out one of them"
        raise BadOption(msg)


class Send(beam.DoFn):
    """Sends records; a bundle ends when they have arrived.

    Args:
        partitioner: chooses partitions; None leaves it to the client.
        tell: whether to yield `Written`.
    """

    def __init__(
        self,
        settings: Settings,
        encoding: Encoding,
        partitioner: Callable[[bytes | None, int], int] | None = None,
        *,
        tell: bool = False,
    ) -> None:
        self._settings = settings
        self._encoding = encoding
        self._partitioner = partitioner
        self._tell = tell
        self._plain_topic = encoding.plain_topic if partitioner is None else None
        self._sink: Sink | None = None
        self._sent = 0
        self._written = Metrics.counter(NAMESPACE, "records_written")

    @override
    def start_bundle(self) -> None:
        if self._sink is None:
            self._sink = choose.open_client(self._settings).sink(tell=self._tell)
        elif self._sent:
            self._sink.forget()  # a bundle that failed
        self._send_plain = self._sink.send
        self._sent = 0

    @override
    def process(self, element: Any) -> None:
        if self._plain_topic is not None and type(element) is tuple and len(element) == 2:
            # Most records: bytes as they are, to the one topic.
            key, value = element
            if type(key) in BYTES and type(value) in BYTES:
                self._sent += 1
                self._send_plain(self._plain_topic, None, key, value, NO_HEADERS, None)
                return
        self._send(element, None)

    def _send(self, element: Any, millis: int | None) -> None:
        assert self._sink is not None
        self._sent += 1
        record = self._encoding.record(element)
        partition, topic = record.partition, record.topic
        assert topic is not None
        if partition is None and self._partitioner is not None:
            partition = self._partitioner(record.key, self._sink.partitions(topic))
        if record.timestamp is not None:
            millis = record.timestamp
        self._sink.send(topic, partition, record.key, record.value, record.headers, millis)

    @override
    def finish_bundle(self) -> Iterator[Any]:
        assert self._sink is not None
        try:
            arrived = self._sink.flush()
        except KafkaFailed:
            self.teardown()
            raise
        self._written.inc(self._sent)
        self._sent = 0
        if not self._tell:
            return  # nor is there a window to tell it in
        for sent in arrived:
            written = Written(*sent.partition, sent.records, sent.last)
            yield GlobalWindows.windowed_value(written)

    @override
    def teardown(self) -> None:
        if self._sink is not None:
            self._sink.close()
            self._sink = None


class SendTimed(Send):
    """Sends records with the timestamps of their elements."""

    @override
    def process(self, element: Any, timestamp: Any = beam.DoFn.TimestampParam) -> None:
        self._send(element, timestamp.micros // 1000)
