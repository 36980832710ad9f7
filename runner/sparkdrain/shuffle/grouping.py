"""The producer side of grouping: values are put together by key before they are sent.

Per flush a key is encoded once, and its values in one call. The table is bounded by the bytes
that its last flush made of it.
"""

from __future__ import annotations

import itertools
import struct
from typing import TYPE_CHECKING, Any, Final

from apache_beam import coders

from sparkdrain.notes import made_by
from sparkdrain.shuffle.coding import IMMUTABLE_TYPES, immutable_values
from sparkdrain.shuffle.keys import refuse_pair

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sparkdrain.shuffle.group_sender import GroupSender

_COUNT = struct.Struct(">i")
_ONE = _COUNT.pack(1)
# Python objects of these types are equal exactly if their encodings are.
PLAIN_KEYS = frozenset({str, int, bytes})
_WINDOWS_REMEMBERED = 100_000

FEW: Final = 4096
"""Elements whose table fits into a processor's cache."""
_FEW_TO_A_KEY: Final = 3
_LOOK_AGAIN: Final = 256
# Pairs that are put to their keys before the next look at how many there are.
_PORTION: Final = 1024

Table = dict[Any, list[Any]]


class GroupWriter:
    """Collects values by (section, key), and sends them as grouped blocks.

    Immutable values are kept as they are until the flush; all others are encoded at once, since
    the user may change them after handing them over. In a table a tuple of one stands for a key
    or value that is encoded already; user tuples never stand there as they are.
    """

    def __init__(self, sender: GroupSender, value_coder: Any) -> None:
        self._sender = sender
        self._encode_key = sender.encode_key
        self._encode_value = value_coder.get_impl().encode_nested
        self._encode_values = coders.ListCoder(value_coder).get_impl().encode
        # Coders of anything (FastPrimitives) may still see only simple objects.
        self._looks_at_types = not immutable_values(value_coder)
        self._some_encoded = False
        self._tables: dict[bytes, Table] = {}
        # Of these, all values are in nested coding.
        self._encoded: dict[bytes, Table] = {}
        self._count = 0

    @property
    def elements(self) -> int:
        """Elements sent."""
        return self._sender.elements

    def table(self, section: bytes) -> Table:
        """The table of a section; valid until the next flush."""
        return self._tables.setdefault(section, {})

    def add(self, tables: list[Table], key: Any, value: Any) -> bool:
        """Put ``value`` to its key in each of ``tables``.

        Returns:
            Whether everything was sent then: tables handed out before are no longer in use.
        """
        if type(key) not in PLAIN_KEYS:
            key = (self._encode_key(key),)
        if self._looks_at_types and type(value) not in IMMUTABLE_TYPES:
            value = (self._encode_value(value),)
            self._some_encoded = True
        for table in tables:
            values = table.get(key)
            if values is None:
                table[key] = [value]
            else:
                values.append(value)
            self._count += 1
        if self._count < self._sender.limit:
            return False
        self.flush()
        return True

    def add_encoded(self, sections: list[bytes], keys: list[bytes], values: list[bytes]) -> None:
        """Put each of ``values``, which are in nested coding, to its key in each of ``sections``.

        It may be that everything was sent then: tables handed out before are no longer in use.
        """
        for section in sections:
            table = self._encoded.setdefault(section, {})
            get = table.get
            for key, value in zip(keys, values, strict=True):
                known = get(key)
                if known is None:
                    table[key] = [value]
                else:
                    known.append(value)
        self._count += len(sections) * len(keys)
        if self._count >= self._sender.limit:
            self.flush()

    def flush(self) -> None:
        """Send all that was collected."""
        tables, self._tables = self._tables, {}
        encoded, self._encoded = self._encoded, {}
        count, self._count = self._count, 0
        chunked = itertools.chain(
            self._chunked(tables, self._chunk), self._chunked(encoded, _joined)
        )
        self._sender.send(chunked, count)
        self._some_encoded = False

    def _chunked(
        self, tables: dict[bytes, Table], chunk: Callable[[list[Any]], bytes]
    ) -> Iterator[tuple[bytes, Table, list[bytes]]]:
        for section, table in tables.items():
            with made_by(self._sender.maker):
                chunks = list(map(chunk, table.values()))
            yield section, table, chunks

    def _chunk(self, values: list[Any]) -> bytes:
        if not self._some_encoded:
            if len(values) == 1:
                return _ONE + self._encode_value(values[0])
            return self._encode_values(values)
        encode = self._encode_value
        return _COUNT.pack(len(values)) + b"".join(
            [v[0] if type(v) is tuple else encode(v) for v in values]
        )


def _joined(values: list[bytes]) -> bytes:
    """The chunk of values in nested coding."""
    return _COUNT.pack(len(values)) + b"".join(values)


class WindowedWriter:
    """Groups by key and window: an element in several windows goes to each of them."""

    def __init__(self, writer: GroupWriter, window_coder: Any) -> None:
        self._writer = writer
        self._add = writer.add
        self._encode_window = window_coder.get_impl().encode
        self._windows: Any = None
        self._tables: list[Table] = []
        # Per windows object that was seen since the last flush (kept alive here): its tables.
        self._seen: dict[int, tuple[Any, list[Table]]] = {}

    @property
    def elements(self) -> int:
        """Elements written."""
        return self._writer.elements

    def write(self, value: Any, context: Any) -> None:
        """Put a key-value pair to its key, in all of its windows."""
        if context.windows is not self._windows:
            self._enter(context.windows)
        try:
            key, item = value
        except (TypeError, ValueError):
            refuse_pair(value)
        if self._add(self._tables, key, item):
            self._forget()

    def write_encoded(self, keys: list[bytes], values: list[bytes], context: Any) -> None:
        """Put values to their keys, in all windows that they share.

        Args:
            keys: bytes, which the coder of keys takes.
            values: one for each key, in nested coding.
        """
        sections = list(map(self._encode_window, context.windows))
        self._forget()
        for begin in range(0, len(keys), _PORTION):
            portion = slice(begin, begin + _PORTION)
            self._writer.add_encoded(sections, keys[portion], values[portion])

    def _enter(self, windows: Any) -> None:
        known = self._seen.get(id(windows))
        if known is None:
            tables = [self._writer.table(self._encode_window(window)) for window in windows]
            if len(self._seen) >= _WINDOWS_REMEMBERED:
                self._seen = {}
            known = self._seen[id(windows)] = (windows, tables)
        self._windows, self._tables = known

    def _forget(self) -> None:
        self._windows = None
        self._seen = {}

    def flush(self) -> None:
        """Send what is left."""
        self._writer.flush()
        self._forget()


class KeyedWriter:
    """Groups by key; every value keeps its timestamp, windows and pane.

    These come before the value in its encoding: elements that share them share their bytes. In the
    table stands the chunk of a key with one element, or a list of its encoded elements.

    Args:
        few: how many elements to put together where keys have one or two in a table that is as
            large as it may be; which is looked at now and then. 0: as many as there may be.
    """

    def __init__(self, sender: GroupSender, value: Any, window: Any, few: int = 0) -> None:
        self._sender = sender
        self._encode_key = sender.encode_key
        self._encode = value.get_impl().encode_nested
        metadata = coders.WindowedValueCoder(coders.BytesCoder(), window)
        self._encode_metadata = metadata.get_impl().encode
        self._table: dict[Any, Any] = {}
        self._count = 0
        self._context: Any = None
        self._metadata = b""
        self._before_one = _ONE
        self._limit = sender.limit
        self._few = few
        # How often to send a few before the next look at how many elements keys have.
        self._until_look = 0

    @property
    def elements(self) -> int:
        """Elements written."""
        return self._sender.elements

    def write(self, value: Any, context: Any) -> None:
        """Put a key-value pair to its key."""
        try:
            key, item = value
        except (TypeError, ValueError):
            refuse_pair(value)
        if context is not self._context:
            self._metadata = self._encode_metadata(context.with_value(b""))
            self._before_one = _ONE + self._metadata
            self._context = context
        if type(key) not in PLAIN_KEYS:
            key = (self._encode_key(key),)
        encoded = self._encode(item)
        table = self._table
        known = table.get(key)
        if known is None:
            table[key] = self._before_one + encoded
        elif type(known) is list:
            known.append(self._metadata + encoded)
        else:
            table[key] = [known[_COUNT.size :], self._metadata + encoded]
        self._count += 1
        if self._count >= self._limit:
            self.flush()

    def flush(self) -> None:
        """Send what is left."""
        table, self._table = self._table, {}
        count, self._count = self._count, 0
        if self._until_look:
            self._until_look -= 1
        elif 0 < self._few < count < _FEW_TO_A_KEY * len(table):
            self._until_look = _LOOK_AGAIN
        chunks = [
            values if type(values) is bytes else _COUNT.pack(len(values)) + b"".join(values)
            for values in table.values()
        ]
        self._sender.send([(b"", table, chunks)], count)
        limit = self._sender.limit
        self._limit = min(limit, self._few) if self._until_look else limit
