"""The values of a key, as a GroupByKey hands them out: a list if they are few, else a stream."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

from apache_beam import coders
from apache_beam.coders import coder_impl, observable
from apache_beam.coders.coder_impl import create_InputStream

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_COUNT = struct.Struct(">i")
# A group below this, in encoded bytes, is handed out as a list.
_SMALL_GROUP = 4 << 20
# How Beam's coder for values of any type marks those that it pickles.
_PICKLED = b"\xff"


class EncodedCoder(coders.BytesCoder):
    """The coder of values that a harness in another process encodes: they stay bytes in a slot."""


class ValueDecoder:
    """Makes the values of a key from their chunks, each a list as a list coder writes it."""

    def __init__(self, coder: coders.Coder) -> None:
        self._list = coders.ListCoder(coder).get_impl().decode
        self._one = coder.get_impl()
        self._is_foreign = not type(coder).__module__.startswith("apache_beam.")
        may_pickle = isinstance(coder, coders.FastPrimitivesCoder)
        self.values = self._any_values if may_pickle or self._is_foreign else self._plain_values
        if isinstance(coder, EncodedCoder):
            self.values = _joined
        """The values in chunks, of which some may be extents on disk."""

    def _plain_values(self, chunks: list[Any]) -> Any:
        if len(chunks) == 1:
            chunk = chunks[0]
            if type(chunk) is bytes and len(chunk) < _SMALL_GROUP:
                return self._list(chunk)
        elif _are_small(chunks):
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
            yield from self._decode(chunk if type(chunk) is bytes else chunk.load())

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


def _joined(chunks: list[Any]) -> bytes:
    """The values of several chunks as Beam's coder for iterables writes them; so is each chunk."""
    parts = [chunk if type(chunk) is bytes else chunk.load() for chunk in chunks]
    if len(parts) == 1:
        return parts[0]
    count = sum(_COUNT.unpack_from(part)[0] for part in parts)
    return _COUNT.pack(count) + b"".join(part[_COUNT.size :] for part in parts)


def _are_small(chunks: list[Any]) -> bool:
    size = 0
    for chunk in chunks:
        if type(chunk) is not bytes:
            return False
        size += len(chunk)
        if size >= _SMALL_GROUP:
            return False
    return True
