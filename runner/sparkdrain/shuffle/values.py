"""The values of a key, as a GroupByKey hands them out: a list if they are few, else a stream."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Final

from apache_beam import coders
from apache_beam.coders import coder_impl, observable
from apache_beam.coders.coder_impl import create_InputStream

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_COUNT = struct.Struct(">i")
WHOLE_BYTES: Final = 1 << 20
"""Encoded values up to this many bytes are handed out as one piece."""
# A group below this, in encoded bytes, is handed out as a list.
_SMALL_GROUP = 4 << 20
# How Beam's coder for values of any type marks those that it pickles.
_PICKLED = b"\xff"
_ENCODED: Final = coders.ListCoder(coders.BytesCoder()).get_impl()


class EncodedCoder(coders.BytesCoder):
    """The coder of values that a harness in another process encodes: they stay bytes in a slot."""


class EncodedValues:
    """The values of a key that are many bytes, which stay encoded and where they are.

    Attributes:
        chunks: each is a list as a list coder writes it, in memory or an extent on disk. Within
            it, each value has its length before it.
    """

    __slots__ = ("chunks",)

    def __init__(self, chunks: list[Any]) -> None:
        self.chunks = chunks


class JoinedCoder(coders.BytesCoder):
    """A coder of all values of a key that a harness in another process has encoded."""

    def _create_impl(self) -> coder_impl.CoderImpl:
        return _JoinedImpl()


class _JoinedImpl(coder_impl.BytesCoderImpl):
    def encode_to_stream(self, value: Any, stream: Any, nested: bool) -> None:
        super().encode_to_stream(joined_values(value), stream, nested)


def joined_values(values: Any) -> bytes:
    """The encoded values of a key, as Beam's coder for iterables writes them, in memory."""
    if type(values) is bytes:
        return values
    if isinstance(values, EncodedValues):
        return joined_chunks(list(map(_loaded, values.chunks)))
    return _ENCODED.encode(list(values))


def joined_chunks(chunks: list[bytes]) -> bytes:
    """The values of several chunks as Beam's coder for iterables writes them; so is each chunk."""
    if len(chunks) == 1:
        return chunks[0]
    count = sum(_COUNT.unpack_from(chunk)[0] for chunk in chunks)
    return _COUNT.pack(count) + b"".join(chunk[_COUNT.size :] for chunk in chunks)


def encoded_values(chunks: list[Any]) -> bytes | EncodedValues:
    """The values of several chunks, as Beam's coder for iterables writes them if they are few."""
    if len(chunks) == 1:
        chunk = chunks[0]
        if type(chunk) is bytes and len(chunk) <= WHOLE_BYTES:
            return chunk
        return EncodedValues(chunks)
    if _are_small(chunks, WHOLE_BYTES + 1):
        return joined_chunks(chunks)
    return EncodedValues(chunks)


class ValueDecoder:
    """Makes the values of a key from their chunks, each a list as a list coder writes it."""

    def __init__(self, coder: coders.Coder) -> None:
        self._list = coders.ListCoder(coder).get_impl().decode
        self._one = coder.get_impl()
        self._is_foreign = not type(coder).__module__.startswith("apache_beam.")
        may_pickle = isinstance(coder, coders.FastPrimitivesCoder)
        self.values = self._any_values if may_pickle or self._is_foreign else self._plain_values
        if isinstance(coder, EncodedCoder):
            self.values = encoded_values
        """The values in chunks, of which some may be extents on disk."""

    def _plain_values(self, chunks: list[Any]) -> Any:
        if len(chunks) == 1:
            chunk = chunks[0]
            if type(chunk) is bytes and len(chunk) < _SMALL_GROUP:
                return self._list(chunk)
        elif _are_small(chunks, _SMALL_GROUP):
            values = self._list(chunks[0])
            for chunk in chunks[1:]:
                values += self._list(chunk)
            return values
        return GroupValues(chunks, self._list)

    def _any_values(self, chunks: list[Any]) -> Any:
        """Objects of the user's own types are decoded one at a time.

        What such an object takes in memory cannot be told from its encoding.
        """
        first = chunks[0]
        if self._is_foreign or type(first) is not bytes or first[4:5] == _PICKLED:
            return GroupValues(chunks, self._one_by_one)
        return self._plain_values(chunks)

    def _one_by_one(self, chunk: bytes) -> Iterator[Any]:
        stream = create_InputStream(chunk[4:])
        for _ in range(_COUNT.unpack_from(chunk)[0]):
            yield self._one.decode_from_stream(stream, True)


class GroupValues(observable.ObservableMixin):
    """The values of one key: an iterable that can be iterated again and is never in memory whole.

    Observable, so that Beam's sampling of sizes waits until user code iterates.
    """

    def __init__(self, chunks: list[Any], decode: Callable[[bytes], Any]) -> None:
        super().__init__()
        self._chunks = chunks
        self._decode = decode

    def __iter__(self) -> Iterator[Any]:
        if self.observers:
            return self._observed()
        return self._values()

    def _values(self) -> Iterator[Any]:
        for chunk in self._chunks:
            yield from self._decode(_loaded(chunk))

    def _observed(self) -> Iterator[Any]:
        for value in self._values():
            self.notify_observers(value, is_encoded=False)
            yield value

    def __len__(self) -> int:
        return sum(
            _COUNT.unpack_from(chunk if type(chunk) is bytes else chunk.load(4))[0]
            for chunk in self._chunks
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, (list, GroupValues)) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<{len(self)} values of a key>"

    def __reduce__(self) -> tuple[Any, ...]:
        return list, (list(self),)


coder_impl.FastPrimitivesCoderImpl.register_iterable_like_type(GroupValues)


def _loaded(chunk: Any) -> bytes:
    """A chunk, which may be an extent on disk."""
    return chunk if type(chunk) is bytes else chunk.load()


def _are_small(chunks: list[Any], limit: int) -> bool:
    """Whether chunks are all in memory, and below a limit together, in bytes."""
    size = 0
    for chunk in chunks:
        if type(chunk) is not bytes:
            return False
        size += len(chunk)
        if size >= limit:
            return False
    return True
