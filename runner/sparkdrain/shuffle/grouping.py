"""The producer side of grouping: values are put together by key before they are sent.

Per flush a key is encoded once, and its values in one call. The table is bounded by the bytes
that its last flush made of it.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from sparkdrain.shuffle.coding import IMMUTABLE_TYPES, immutable_values
from sparkdrain.shuffle.grouped_blocks import encode_groups
from sparkdrain.shuffle.outbox import Outbox, Partition

_COUNT = struct.Struct(">i")
# Python objects of these types are equal exactly if their encodings are.
PLAIN_KEYS = frozenset({str, int, bytes})
_FIRST_LIMIT = 20_000
_HIGHEST_LIMIT = 1_000_000
_FLUSH_BYTES = 16 << 20
_WINDOWS_REMEMBERED = 100_000

Router = Callable[[bytes], Partition]


class GroupWriter:
    """Collects values by (section, key), and sends them as grouped blocks.

    Immutable values are kept as they are until the flush; all others are encoded at once, since
    the user may change them after handing them over. In a table a tuple of one stands for a key
    or value that is encoded already; user tuples never stand there as they are.
    """

    def __init__(
        self,
        edge: int,
        key_coder: Any,
        value_coder: Any,
        list_impl: Any,
        outbox: Outbox,
        route: Router,
        block_bytes: int,
    ) -> None:
        self._edge = edge
        self._key_impl = key_coder.get_impl()
        self._value_impl = value_coder.get_impl()
        self._list_impl = list_impl
        self._outbox = outbox
        self._route = route
        self._block_bytes = block_bytes
        # Coders of anything (FastPrimitives) may still see only simple objects.
        self._looks_at_types = not immutable_values(value_coder)
        self._some_encoded = False
        self._tables: dict[bytes, dict[Any, list[Any]]] = {}
        self._limit = _FIRST_LIMIT
        self._count = 0
        self.elements = 0

    def table(self, section: bytes) -> dict[Any, list[Any]]:
        """The table of a section; valid until the next flush."""
        return self._tables.setdefault(section, {})

    def add(self, table: dict[Any, list[Any]], key: Any, value: Any) -> None:
        """Put ``value`` to its key; call ``maybe_flush`` afterwards, between elements."""
        if type(key) not in PLAIN_KEYS:
            key = (self._key_impl.encode_nested(key),)
        if self._looks_at_types and type(value) not in IMMUTABLE_TYPES:
            value = (self._value_impl.encode_nested(value),)
            self._some_encoded = True
        values = table.get(key)
        if values is None:
            table[key] = [value]
        else:
            values.append(value)
        self._count += 1

    def maybe_flush(self) -> bool:
        """Flush if the table is full; tables handed out before are then no longer in use."""
        if self._count < self._limit:
            return False
        self.flush()
        return True

    def flush(self) -> None:
        """Send all that was collected."""
        sent = self._outbox.bytes
        for section, table in self._tables.items():
            self._send(section, table)
        self._tables = {}
        self._some_encoded = False
        sent = self._outbox.bytes - sent
        self.elements += self._count
        if self._count:
            fitting = self._count * _FLUSH_BYTES // max(1, sent)
            self._limit = max(1, min(fitting, self._limit * 8, _HIGHEST_LIMIT))
        self._count = 0

    def _send(self, section: bytes, table: dict[Any, list[Any]]) -> None:
        parts: dict[Partition, tuple[list[bytes], list[bytes]]] = {}
        sizes: dict[Partition, int] = {}
        encode_key = self._key_impl.encode_nested
        route = self._route
        for key, values in table.items():
            encoded = key[0] if type(key) is tuple else encode_key(key)
            chunk = self._chunk(values)
            partition = route(encoded)
            part = parts.get(partition)
            if part is None:
                part = parts[partition] = ([], [])
                sizes[partition] = 0
            part[0].append(encoded)
            part[1].append(chunk)
            sizes[partition] += len(encoded) + len(chunk)
            if sizes[partition] > self._block_bytes:
                self._outbox.put(self._edge, partition, encode_groups(section, *part))
                del parts[partition]
        for partition, part in parts.items():
            self._outbox.put(self._edge, partition, encode_groups(section, *part))

    def _chunk(self, values: list[Any]) -> bytes:
        if not self._some_encoded:
            return self._list_impl.encode(values)
        encode = self._value_impl.encode_nested
        return _COUNT.pack(len(values)) + b"".join(
            [v[0] if type(v) is tuple else encode(v) for v in values]
        )


class WindowedWriter:
    """Groups by key and window: an element in several windows goes to each of them."""

    def __init__(self, writer: GroupWriter, window_coder: Any) -> None:
        self._writer = writer
        self._encode_window = window_coder.get_impl().encode
        self._windows: Any = None
        self._tables: list[dict[Any, list[Any]]] = []
        # Per windows object that was seen since the last flush (kept alive here): its tables.
        self._seen: dict[int, tuple[Any, list[dict[Any, list[Any]]]]] = {}

    @property
    def elements(self) -> int:
        """Elements written."""
        return self._writer.elements

    def write(self, value: Any, context: Any) -> None:
        """Put a key-value pair to its key, in all of its windows."""
        if context.windows is not self._windows:
            self._enter(context.windows)
        key, item = value
        for table in self._tables:
            self._writer.add(table, key, item)
        if self._writer.maybe_flush():
            self._forget()

    def _enter(self, windows: Any) -> None:
        known = self._seen.get(id(windows))
        if known is None:
            tables = [self._writer.table(self._encode_window(window)) for window in windows]
            known = self._seen[id(windows)] = (windows, tables)
            if len(self._seen) > _WINDOWS_REMEMBERED:
                self._seen = {id(windows): known}
        self._windows, self._tables = known

    def _forget(self) -> None:
        self._windows = None
        self._seen = {}

    def flush(self) -> None:
        """Send what is left."""
        self._writer.flush()
        self._forget()


class KeyedWriter:
    """Groups by key; every value keeps its timestamp, windows and pane."""

    def __init__(self, writer: GroupWriter) -> None:
        self._writer = writer
        self._table = writer.table(b"")

    @property
    def elements(self) -> int:
        """Elements written."""
        return self._writer.elements

    def write(self, value: Any, context: Any) -> None:
        """Put a key-value pair to its key."""
        key, item = value
        self._writer.add(self._table, key, context.with_value(item))
        if self._writer.maybe_flush():
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
        for window in context.windows:
            self._writer.add(self._writer.table(self._encode_window(window)), key, item)
        self._writer.maybe_flush()

    def flush(self) -> None:
        """Send what is left."""
        self._writer.flush()
