"""How an element becomes a record of Kafka, in bytes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from sparkdrain.io.kafka.client import NO_HEADERS
from sparkdrain.io.kafka.errors import KafkaWriteFailed
from sparkdrain.io.kafka.records import ProducerRecord

if TYPE_CHECKING:
    from apache_beam.coders import Coder

BYTES: Final = frozenset({bytes, type(None)})
"""The types of keys and values that need no coder."""


@dataclass(frozen=True)
class Encoding:
    """What becomes of an element.

    Attributes:
        topic: where records go that do not say so themselves.
        key_coder: encodes keys; None for bytes.
        value_coder: encodes values; None for bytes.
    """

    topic: str | None
    key_coder: Coder | None
    value_coder: Coder | None

    @property
    def plain_topic(self) -> str | None:
        """The topic, if pairs of bytes go there as they are."""
        coded = self.key_coder is not None or self.value_coder is not None
        return None if coded else self.topic

    def record(self, element: Any) -> ProducerRecord:
        """The record of an element, in bytes.

        Raises:
            KafkaWriteFailed: it is none.
        """
        if isinstance(element, ProducerRecord):
            key, value, topic, partition, timestamp, headers = element
            topic = topic or self.topic
        else:
            try:
                key, value = element
            except (TypeError, ValueError):
                msg = f"WriteToKafka takes pairs of key and value, or ProducerRecord: {element!r}"
                raise KafkaWriteFailed(msg) from None
            topic, partition, timestamp, headers = self.topic, None, None, NO_HEADERS
        if topic is None:
            msg = f"no topic for {element!r}: name one in WriteToKafka, or in the ProducerRecord"
            raise KafkaWriteFailed(msg)
        if type(key) not in BYTES or self.key_coder is not None:
            key = _encoded(key, self.key_coder, "key")
        if type(value) not in BYTES or self.value_coder is not None:
            value = _encoded(value, self.value_coder, "value")
        return ProducerRecord(key, value, topic, partition, timestamp, headers)


def _encoded(data: Any, coder: Coder | None, part: str) -> bytes | None:
    if data is None:
        return None
    if coder is not None:
        return coder.encode(data)
    if isinstance(data, bytes):
        return data
    msg = f"the {part} {data!r} is {type(data).__name__}, not bytes: pass {part}_coder="
    raise KafkaWriteFailed(msg)
