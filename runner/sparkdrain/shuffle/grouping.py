"""The producer side of grouping: values are put together by key before they are sent.

Per flush a key is encoded once, and its values in one call. The table is bounded by the bytes
that its last flush made of it.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from sparkdrain.shuffle.coding import IMMUTABLE_TYPES, immutable_values
from sparkdrain.shuffle.grouped_blocks import cuts, encode_groups
from sparkdrain.shuffle.outbox import Outbox, Partition

if TYPE_CHECKING:
    from sparkdrain.shuffle.keys import KeyEncode

_COUNT = struct.Struct(">i")
_ONE = _COUNT.pack(1)
# Python objects of these types are equal exactly if their encodings are.
PLAIN_KEYS = frozenset({str, int, bytes})
# Elements may be large: the first tables tell.
_FIRST_LIMIT = 1_000
_HIGHEST_LIMIT = 500_000
_FLUSH_BYTES = 16 << 20
_WINDOWS_REMEMBERED = 100_000

Table = dict[Any, list[Any]]
Router = Callable[[list[bytes]], list[Partition]]
"""Where each of some encoded keys goes."""


class GroupWriter:
    """Collects values by (section, key), and sends them as grouped blocks.

    Immutable values are kept as they are until the flush; all others are encoded at once, since
    the user may change them after handing them over. In a table a tuple of one stands for a key
    or value that is encoded already; user tuples never stand there as they are.
    """

    def __init__(
        self,
        edge: int,
        encode_key: KeyEncode,
        value_coder: Any,
        outbox: Outbox,
        route: Router,
        block_bytes: int,
    ) -> None:
        from apache_beam import coders  # noqa: PLC0415 - only its list coder

        self._edge = edge
        self._encode_key = encode_key
        self.value_coder = value_coder
        self._encode_value = value_coder.get_impl().encode_nested
        self._encode_values = coders.ListCoder(value_coder).get_impl().encode
        self._outbox = outbox
        self._route = route
        self._block_bytes = block_bytes
        # Coders of anything (FastPrimitives) may still see only simple objects.
        self._looks_at_types = not immutable_values(value_coder)
        self._some_encoded = False
        self.all_encoded = False
        """Whether all values that are added are encoded already: by ``add_encoded``."""
        self._tables: dict[bytes, Table] = {}
        self._limit = _FIRST_LIMIT
        self._count = 0
        self.elements = 0

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
        if self._count < self._limit:
            return False
        self.flush()
        return True

    def add_encoded(self, table: Table, key: Any, value: bytes) -> bool:
        """As ``add`` to one table, of a value that is encoded already."""
        # Not by way of ``add``: its loop over tables, and its look at the type of the value, took
        # 50 ns an element where this takes 180.
        if type(key) not in PLAIN_KEYS:
            key = (self._encode_key(key),)
        values = table.get(key)
        if values is None:
            table[key] = [value]
        else:
            values.append(value)
        self._count += 1
        if self._count < self._limit:
            return False
        self.flush()
        return True

    def flush(self) -> None:
        """Send all that was collected."""
        sent = self._outbox.sent_bytes
        for section, table in self._tables.items():
            self._send(section, table)
        self._tables = {}
        self._some_encoded = False
        sent = self._outbox.sent_bytes - sent
        self.elements += self._count
        if self._count:
            fitting = self._count * _FLUSH_BYTES // max(1, sent)
            self._limit = max(1, min(fitting, self._limit * 8, _HIGHEST_LIMIT))
        self._count = 0

    def _send(self, section: bytes, table: Table) -> None:
        encode = self._encode_key
        keys = [key[0] if type(key) is tuple else encode(key) for key in table]
        chunks = [self._chunk(values) for values in table.values()]
        parts: dict[Partition, tuple[list[bytes], list[bytes]]] = {}
        for key, chunk, partition in zip(keys, chunks, self._route(keys), strict=True):
            part = parts.get(partition)
            if part is None:
                part = parts[partition] = ([], [])
            part[0].append(key)
            part[1].append(chunk)
        for partition, (keys, chunks) in parts.items():
            for start, end in cuts(chunks, self._block_bytes):
                self._outbox.put(
                    self._edge,
                    partition,
                    encode_groups(section, keys[start:end], chunks[start:end]),
                )

    def _chunk(self, values: list[Any]) -> bytes:
        if self.all_encoded:
            if len(values) == 1:
                return _ONE + values[0]
            return _COUNT.pack(len(values)) + b"".join(values)
        if not self._some_encoded:
            if len(values) == 1:
                return _ONE + self._encode_value(values[0])
            return self._encode_values(values)
        encode = self._encode_value
        return _COUNT.pack(len(values)) + b"".join(
            [v[0] if type(v) is tuple else encode(v) for v in values]
        )


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
        key, item = value
        if self._add(self._tables, key, item):
            self._forget()

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

    These come before the value in its encoding: elements that share them share their bytes.
    """

    def __init__(self, writer: GroupWriter) -> None:
        from apache_beam import coders  # noqa: PLC0415 - only its coder of windowed values

        coder = writer.value_coder
        self._writer = writer
        writer.all_encoded = True
        self._table = writer.table(b"")
        self._encode = coder.wrapped_value_coder.get_impl().encode_nested
        metadata = coders.WindowedValueCoder(coders.BytesCoder(), coder.window_coder)
        self._encode_metadata = metadata.get_impl().encode
        self._context: Any = None
        self._metadata = b""

    @property
    def elements(self) -> int:
        """Elements written."""
        return self._writer.elements

    def write(self, value: Any, context: Any) -> None:
        """Put a key-value pair to its key."""
        key, item = value
        if context is not self._context:
            self._metadata = self._encode_metadata(context.with_value(b""))
            self._context = context
        if self._writer.add_encoded(self._table, key, self._metadata + self._encode(item)):
            self._table = self._writer.table(b"")

    def flush(self) -> None:
        """Send what is left."""
        self._writer.flush()
        self._table = self._writer.table(b"")


class SideWriter:
    """Groups a side input by window, and by key if it is looked up by key."""

    def __init__(self, writer: GroupWriter, window_coder: Any, *, multimap: bool) -> None:
        self._writer = writer
        self._encode_window = window_coder.get_impl().encode
        self._multimap = multimap

    @property
    def elements(self) -> int:
        """Elements written."""
        return self._writer.elements

    def write(self, value: Any, context: Any) -> None:
        """Put an element to each of its windows."""
        key, item = value if self._multimap else (b"", value)
        tables = [self._writer.table(self._encode_window(window)) for window in context.windows]
        self._writer.add(tables, key, item)

    def flush(self) -> None:
        """Send what is left."""
        self._writer.flush()
