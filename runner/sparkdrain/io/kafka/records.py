"""Records as pipelines see them, and how they are coded between steps."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final, NamedTuple

from apache_beam import coders
from apache_beam.coders.coder_impl import StreamCoderImpl, TupleCoderImpl
from apache_beam.coders.coders import FastCoder

from sparkdrain.io.kafka.client import NO_HEADERS, Headers


class KafkaRecord(NamedTuple):
    """A record with all that is known of it.

    Attributes:
        topic: where it is from.
        partition: its number in the topic, from 0.
        offset: within the partition.
        timestamp: milliseconds since 1970; -1 if it has none.
        key: bytes, or what ``key_coder`` made of them; None if it has none.
        value: bytes, or what ``value_coder`` made of them; None if it has none.
        headers: pairs of a name and bytes or None.
    """

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: Any
    value: Any
    headers: Headers = NO_HEADERS


class BadRecord(NamedTuple):
    """A record that could not be decoded, as it is, and why not."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers
    error: str


class ProducerRecord(NamedTuple):
    """A record to write, for those that need to say more than a key and a value.

    Attributes:
        key: bytes, or what ``key_coder`` encodes; None for none.
        value: bytes, or what ``value_coder`` encodes; None for none.
        topic: where it is to go; None for the topic of the transform.
        partition: which is to have it; None lets the partitioner choose.
        timestamp: milliseconds since 1970; None for the time of writing.
        headers: pairs of a name and bytes or None.
    """

    key: Any
    value: Any
    topic: str | None = None
    partition: int | None = None
    timestamp: int | None = None
    headers: Headers = NO_HEADERS


class Written(NamedTuple):
    """What a bundle has written to a partition.

    Attributes:
        topic: where the records are.
        partition: its number in the topic, from 0.
        records: how many.
        last_offset: offset of the last record.
    """

    topic: str
    partition: int
    records: int
    last_offset: int


class _AsTuple(TupleCoderImpl):
    """Codes a named tuple as its fields."""

    def __init__(self, kind: Any, fields: Any) -> None:
        super().__init__(fields)
        self._kind = kind

    def _construct_from_components(self, components: Any) -> Any:
        return tuple.__new__(self._kind, components)


class NamedTupleCoder(FastCoder):
    """Codes a named tuple as its fields; a subclass says which, and is the coder of its type."""

    kind: Any
    fields: tuple[Any, ...]

    def __init_subclass__(cls) -> None:
        coders.registry.register_coder(cls.kind, cls)

    def _create_impl(self) -> Any:
        return _AsTuple(self.kind, [field.get_impl() for field in self.fields])

    def is_deterministic(self) -> bool:
        """Values of any type are coded as they are."""
        return False

    def to_type_hint(self) -> Any:
        """The named tuple's type."""
        return self.kind

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other)

    def __hash__(self) -> int:
        return hash(type(self))


_TOPICS_KNOWN: Final = 256
TEXT = coders.StrUtf8Coder()
INT = coders.VarIntCoder()
BYTES = coders.NullableCoder(coders.BytesCoder())
ANY = coders.FastPrimitivesCoder()
HEADERS = coders.TupleSequenceCoder(coders.TupleCoder((TEXT, BYTES)))


class KafkaRecordCoder(NamedTupleCoder):
    """Encodes `KafkaRecord`."""

    kind = KafkaRecord
    fields = (TEXT, INT, INT, INT, ANY, ANY, HEADERS)


class BadRecordCoder(NamedTupleCoder):
    """Encodes `BadRecord`."""

    kind = BadRecord
    fields = (TEXT, INT, INT, INT, BYTES, BYTES, HEADERS, TEXT)


class ProducerRecordCoder(NamedTupleCoder):
    """Encodes `ProducerRecord`."""

    kind = ProducerRecord
    fields = (
        ANY,
        ANY,
        coders.NullableCoder(TEXT),
        coders.NullableCoder(INT),
        coders.NullableCoder(INT),
        HEADERS,
    )

    def _create_impl(self) -> Any:
        return _AsProducerRecord(*(field.get_impl() for field in self.fields))


class _AsProducerRecord(StreamCoderImpl):
    """Codes a `ProducerRecord` as its fields; knows by heart what follows key and value of most."""

    def __init__(
        self, data: Any, _: Any, topic: Any, partition: Any, time: Any, headers: Any
    ) -> None:
        self._encode_data, self._decode_data = data.encode_to_stream, data.decode_from_stream
        self._rest = (topic, partition, time, headers)
        self._decode_rest = [impl.decode_from_stream for impl in self._rest[1:]]
        self._plain_rest = lru_cache(_TOPICS_KNOWN)(self._encode_plain_rest)

    def encode_to_stream(self, value: Any, stream: Any, nested: bool) -> None:
        key, content, topic, partition, time, headers = value
        self._encode_data(key, stream, True)
        self._encode_data(content, stream, True)
        if partition is None and time is None and not headers:
            stream.write(self._plain_rest(topic))
            return
        for impl, field in zip(self._rest, value[2:], strict=True):
            impl.encode_to_stream(field, stream, True)

    def _encode_plain_rest(self, topic: str | None) -> bytes:
        fields = (topic, None, None, NO_HEADERS)
        return b"".join(
            impl.encode_nested(field) for impl, field in zip(self._rest, fields, strict=True)
        )

    def decode_from_stream(self, stream: Any, nested: bool) -> Any:
        decode_partition, decode_time, decode_headers = self._decode_rest
        return ProducerRecord(
            self._decode_data(stream, True),
            self._decode_data(stream, True),
            _text(stream.read_all(True)) if stream.read_byte() else None,
            decode_partition(stream, True),
            decode_time(stream, True),
            decode_headers(stream, True),
        )


@lru_cache(_TOPICS_KNOWN)
def _text(encoded: bytes) -> str:
    return encoded.decode("utf-8")


class WrittenCoder(NamedTupleCoder):
    """Encodes `Written`."""

    kind = Written
    fields = (TEXT, INT, INT, INT)
