"""Records as pipelines see them, and how they are coded between steps."""

from __future__ import annotations

from typing import Any, NamedTuple

from apache_beam import coders
from apache_beam.coders.coder_impl import StreamCoderImpl
from apache_beam.coders.coders import FastCoder

from sparkdrain.io.kafka.client import NO_HEADERS, Headers


class KafkaRecord(NamedTuple):
    """A record with all that is known of it.

    Attributes:
        topic: where it is from.
        partition: of the topic.
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
        partition: of the topic.
        records: how many.
        last_offset: of the last one.
    """

    topic: str
    partition: int
    records: int
    last_offset: int


class _AsTuple(StreamCoderImpl):
    """Codes a named tuple as its fields."""

    def __init__(self, kind: Any, fields: Any) -> None:
        self._kind = kind
        self._fields = fields

    def encode_to_stream(self, value: Any, stream: Any, nested: bool) -> None:
        self._fields.encode_to_stream(tuple(value), stream, nested)

    def decode_from_stream(self, stream: Any, nested: bool) -> Any:
        return self._kind._make(self._fields.decode_from_stream(stream, nested))


class _RecordCoder(FastCoder):
    """Codes the named tuples of this module; keys and values are coded by what they are."""

    kind: Any
    fields: tuple[Any, ...]

    def _create_impl(self) -> Any:
        return _AsTuple(self.kind, coders.TupleCoder(self.fields).get_impl())

    def is_deterministic(self) -> bool:
        return False

    def to_type_hint(self) -> Any:
        return self.kind

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other)

    def __hash__(self) -> int:
        return hash(type(self))


_TEXT = coders.StrUtf8Coder()
_INT = coders.VarIntCoder()
_BYTES = coders.NullableCoder(coders.BytesCoder())
_ANY = coders.FastPrimitivesCoder()
_HEADERS = coders.TupleSequenceCoder(coders.TupleCoder((_TEXT, _BYTES)))


class KafkaRecordCoder(_RecordCoder):
    """Of `KafkaRecord`."""

    kind = KafkaRecord
    fields = (_TEXT, _INT, _INT, _INT, _ANY, _ANY, _HEADERS)


class BadRecordCoder(_RecordCoder):
    """Of `BadRecord`."""

    kind = BadRecord
    fields = (_TEXT, _INT, _INT, _INT, _BYTES, _BYTES, _HEADERS, _TEXT)


class ProducerRecordCoder(_RecordCoder):
    """Of `ProducerRecord`."""

    kind = ProducerRecord
    fields = (
        _ANY,
        _ANY,
        coders.NullableCoder(_TEXT),
        coders.NullableCoder(_INT),
        coders.NullableCoder(_INT),
        _HEADERS,
    )


class WrittenCoder(_RecordCoder):
    """Of `Written`."""

    kind = Written
    fields = (_TEXT, _INT, _INT, _INT)


for _kind, _coder in (
    (KafkaRecord, KafkaRecordCoder),
    (BadRecord, BadRecordCoder),
    (ProducerRecord, ProducerRecordCoder),
    (Written, WrittenCoder),
):
    coders.registry.register_coder(_kind, _coder)
