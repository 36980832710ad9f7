"""Elements as they are on the data channel: metadata and length-prefixed bytes."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Final

from apache_beam.coders.coder_impl import create_InputStream

from sparkdrain.fnapi.errors import garbled
from sparkdrain.shuffle.coding import metadata_coder
from sparkdrain.shuffle.elements import ElementWriter
from sparkdrain.shuffle.grouping import WindowedWriter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from apache_beam import coders

    from sparkdrain.harness.harness import Writer

_COUNT: Final = struct.Struct(">i")
_SHORT: Final = [bytes([n]) for n in range(128)]
# Most metadata is shorter: a time, a few windows, a pane.
_METADATA: Final = 256
_TIME: Final = 8
_ONE: Final = _COUNT.pack(1)
# Bytes of groups that are encoded at one go.
_PORTION: Final = 256 << 10


def prefix(size: int) -> bytes:
    """A length as a variable-length integer."""
    if size < 128:
        return _SHORT[size]
    parts = bytearray()
    while size >= 128:
        parts.append(size & 127 | 128)
        size >>= 7
    parts.append(size)
    return bytes(parts)


def prefixed(value: bytes) -> bytes:
    """A value with its length before it."""
    return prefix(len(value)) + value


def unprefixed(data: bytes, position: int = 0) -> tuple[bytes, int]:
    """The value whose length stands at a position, and the position behind it."""
    size = data[position]
    position += 1
    if size >= 128:
        size, shift = size & 127, 7
        while True:
            part = data[position]
            position += 1
            size |= (part & 127) << shift
            if part < 128:
                break
            shift += 7
    return data[position : position + size], position + size


def unprefixed_end(data: bytes, position: int) -> int:
    """Where a value ends, given where its length stands; behind the data if some is missing."""
    size = shift = 0
    for number in range(position, len(data)):
        part = data[number]
        if part < 128 and not shift:
            return number + 1 + part
        size |= (part & 127) << shift
        if part < 128:
            return number + 1 + size
        shift += 7
    return len(data) + 1


def check_windows(data: bytes, position: int) -> None:
    """Return if as many windows as a number at a position says can follow it.

    Beam's streams do not look where the data end: rubbish would be read as up to two thousand
    million windows.

    Raises:
        ValueError: there cannot be so many.
    """
    number = data[position : position + _COUNT.size]
    if number != _ONE:
        left = len(data) - position - _COUNT.size
        if left < 0 or not 0 <= int.from_bytes(number, "big", signed=True) <= left:
            message = f"a number of windows, {number.hex()}, does not fit the {left} bytes after it"
            raise ValueError(message)


class Metadata:
    """Reads and writes timestamp, windows and pane."""

    def __init__(self, window: coders.Coder) -> None:
        self._impl = metadata_coder(window).get_impl()

    def encode(self, context: Any) -> bytes:
        """The metadata of a windowed value."""
        encoded: bytes = self._impl.encode(context.with_value(None))
        return encoded

    def decode(self, data: bytes, position: int) -> tuple[Any, int]:
        """A windowed value without its value, and the position behind the metadata.

        Raises:
            Exception: no coder has written that. If the end is missing, the position is behind it.
        """
        check_windows(data, position + _TIME)
        part = data[position : position + _METADATA]
        try:
            return self._decode(part, position)
        except Exception:  # noqa: BLE001 - Beam's streams tell their end in many ways
            return self._decode(data[position:], position)

    def windowed(self, data: bytes) -> Any:
        """The windowed value of an encoded element."""
        context, position = self.decode(data, 0)
        return context.with_value(unprefixed(data, position)[0])

    def _decode(self, part: bytes, position: int) -> tuple[Any, int]:
        stream = create_InputStream(part)
        value = self._impl.decode_from_stream(stream, True)
        return value, position + len(part) - stream.size()


def encode_values(metadata: bytes, values: Iterable[bytes]) -> bytes:
    """Elements that share their metadata."""
    short = _SHORT
    parts = [
        (short[len(value)] if len(value) < 128 else prefix(len(value))) + value for value in values
    ]
    return metadata + metadata.join(parts) if parts else b""


def encode_groups(
    metadata: bytes, groups: Iterable[tuple[bytes, Any]], encode: Callable[[Any], bytes]
) -> Iterator[bytes]:
    """Keys with their values, which share their metadata, in portions.

    Args:
        encode: encodes values that are not bytes. The portion ends with them.
    """
    short = _SHORT
    parts: list[bytes] = []
    size = 0
    for key, values in groups:
        if type(values) is bytes:
            encoded = values
            size += len(values)
        else:
            encoded = encode(values)
            size = _PORTION
        length = len(key)
        head = short[length] if length < 128 else prefix(length)
        parts.append(metadata + head + key + encoded)
        if size >= _PORTION:
            yield b"".join(parts)
            parts = []
            size = 0
    if parts:
        yield b"".join(parts)


def encode_pair(pair: tuple[bytes, bytes]) -> bytes:
    """A key with a value."""
    key, value = pair
    return prefixed(key) + prefixed(value)


class Output:
    """Hands elements that come from a harness to the writer of an edge.

    Args:
        metadata: reads timestamp, windows and pane.
        pairs: whether the writer takes pairs of key and value, and not whole elements.
    """

    def __init__(self, writer: Writer, metadata: Metadata, *, pairs: bool) -> None:
        self._write: Callable[[Any, Any], None] = writer.write
        self._write_run = _run_writer(writer, pairs=pairs)
        self._metadata = metadata
        self._pairs = pairs
        # Mostly, elements have the metadata of the one before.
        self._known = b""
        self._context: Any = None

    def take(self, data: bytes) -> None:
        """Write the elements of a message.

        Raises:
            HarnessGarbled: an element is not what the coders of the pipeline write.
        """
        position, size = self._take_run(data), len(data)
        write, pairs, known, context = self._write, self._pairs, self._known, self._context
        item = b""
        while position < size:
            if known and data.startswith(known, position):
                position += len(known)
            else:
                position = self._read_metadata(data, position)
                known, context = self._known, self._context
            try:
                # Nearly all keys and values are short.
                if data[position] < 128:
                    start, position = position + 1, position + 1 + data[position]
                    value = data[start:position]
                else:
                    value, position = unprefixed(data, position)
                if pairs:
                    if data[position] < 128:
                        start, position = position + 1, position + 1 + data[position]
                        item = data[start:position]
                    else:
                        item, position = unprefixed(data, position)
            except IndexError as error:
                raise garbled(repr(error)) from error
            if position > size:
                missing = f"{position - size} bytes are missing at the end"
                raise garbled(missing)
            write((value, item) if pairs else value, context)

    def _take_run(self, data: bytes) -> int:
        """Write the elements at the beginning that share their metadata; where they end."""
        if self._write_run is None:
            return 0
        if not (self._known and data.startswith(self._known)):
            self._read_metadata(data, 0)
        return self._write_run(data, self._known, self._context)

    def _read_metadata(self, data: bytes, position: int) -> int:
        """Learn the metadata at a position; the position behind it."""
        try:
            self._context, behind = self._metadata.decode(data, position)
        except Exception as error:  # Beam's streams tell their end in many ways
            raise garbled(repr(error)) from error
        self._known = data[position:behind]
        return behind


def _run_writer(writer: Writer, *, pairs: bool) -> Callable[[bytes, bytes, Any], int] | None:
    """Writes the elements with which a message begins, and says where they end.

    None for a writer that takes elements one by one.
    """
    if pairs and isinstance(writer, WindowedWriter):
        write_pairs = writer.write_encoded

        def pairs_of(data: bytes, metadata: bytes, context: Any) -> int:
            keys, values, end = leading_pairs(data, metadata)
            write_pairs(keys, values, context)
            return end

        return pairs_of
    if not pairs and isinstance(writer, ElementWriter):
        write_elements = writer.write_encoded

        def elements_of(data: bytes, metadata: bytes, context: Any) -> int:
            elements, end = leading_run(data, metadata)
            write_elements(elements, context)
            return end

        return elements_of
    return None


def leading_run(data: bytes, metadata: bytes) -> tuple[list[bytes], int]:
    """The elements with which a message begins, as long as they have the same metadata.

    What stands between two occurrences of the metadata is an element if its length says so. If it
    does not, the metadata is a part of an element's value, or other metadata follows.

    Args:
        data: begins with the metadata.

    Returns:
        The values with their lengths, and the position behind them.
    """
    parts = data.split(metadata)
    del parts[0]
    for number, part in enumerate(parts):
        size = len(part) - 1
        if not (0 <= size < 128 and part[0] == size) and unprefixed_end(part, 0) != len(part):
            del parts[number:]
            break
    return parts, len(metadata) * len(parts) + sum(map(len, parts))


def leading_pairs(data: bytes, metadata: bytes) -> tuple[list[bytes], list[bytes], int]:
    """The pairs with which a message begins, as long as they have the same metadata.

    Args:
        data: begins with the metadata.

    Returns:
        The keys, the values with their lengths, and the position behind them.
    """
    parts = data.split(metadata)
    del parts[0]
    keys, values = [], []
    for part in parts:
        try:
            # Nearly all keys and values are short.
            behind = part[0] + 1
            value = part[behind:]
            if behind <= 128 and value[0] == len(value) - 1 < 128:
                key = part[1:behind]
            else:
                key, behind = unprefixed(part)
                value = part[behind:]
                if unprefixed_end(value, 0) != len(value):
                    break
        except IndexError:
            break
        keys.append(key)
        values.append(value)
    return keys, values, len(metadata) * len(keys) + sum(map(len, parts[: len(keys)]))
