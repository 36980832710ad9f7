"""The blocks of a round of a KEYED edge, merged by key or not, and the elements in them."""

from __future__ import annotations

import struct
from collections.abc import Callable
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from sparkdrain.shuffle.grouped_blocks import decode_some
from sparkdrain.shuffle.merging import GroupMerger

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from sparkdrain.shuffle.coding import ElementCoding

# The part of the budget that payloads may take as they came: put together, they take more.
_AS_THEY_CAME: Final = 8

_ONE: Final = struct.pack(">i", 1)
NO_CHUNK: Final = b"\xff\xff\xff\xff"
"""How no chunk begins."""
Start = tuple[bytes, Any]
"""How a chunk with one element begins, and an element with its time, window and pane."""

InMemory = Callable[[dict[bytes, Any]], "Iterable[tuple[bytes, Any]]"]


class KeyedBlocks:
    """Collects grouped blocks within a budget of memory; what is more of them is on disk.

    It is empty again for the next round.

    Args:
        memory_bytes: the budget.
        scratch: where the rest goes; asked for when needed.
    """

    def __init__(self, memory_bytes: int, scratch: Callable[[], Path]) -> None:
        self._memory_bytes = memory_bytes
        self._scratch = scratch
        self._payloads: list[bytes] = []
        self._left = memory_bytes // _AS_THEY_CAME
        self._merger: GroupMerger | None = None

    def add(self, payload: memoryview) -> None:
        """Collect a block."""
        self._left -= len(payload)
        if self._left >= 0:
            self._payloads.append(bytes(payload))
        else:
            self._merge().add(bytes(payload))

    @property
    def spilled_bytes(self) -> int:
        """How much went to disk; nothing when this is empty."""
        return 0 if self._merger is None else self._merger.spilled_bytes

    def are_any(self) -> bool:
        """Whether there is anything."""
        return bool(self._payloads) or self._merger is not None

    def pieces(self) -> Iterable[tuple[bytes, bytes]] | None:
        """Keys and a chunk of each, a key as often as blocks have it; None if some are on disk."""
        if self._merger is not None:
            return None
        return chain.from_iterable(chain.from_iterable(map(decode_some, self._payloads)))

    def groups(self, in_memory: InMemory) -> Iterable[tuple[bytes, Any]]:
        """Every key, once, and its chunk, or chunks to be read before the next key is asked for.

        ``in_memory`` hands them out if all are in a table.
        """
        if not self.are_any():
            return ()
        merger = self._merge()
        table = merger.table()
        return self._merged(merger) if table is None else in_memory(table)

    def _merge(self) -> GroupMerger:
        merger = self._merger
        if merger is None:
            merger = self._merger = GroupMerger(self._memory_bytes, self._scratch)
            payloads, self._payloads = self._payloads[::-1], []
            while payloads:
                merger.add(payloads.pop())
        return merger

    def _merged(self, merger: GroupMerger) -> Iterator[tuple[bytes, Any]]:
        for _, key, chunks in merger.groups():
            if any(type(chunk) is not bytes for chunk in chunks):
                yield key, (chunk if type(chunk) is bytes else chunk.load() for chunk in chunks)
            else:
                yield key, chunks if len(chunks) > 1 else chunks[0]

    def clear(self) -> None:
        """Let go of everything."""
        self._payloads = []
        self._left = self._memory_bytes // _AS_THEY_CAME
        if self._merger is not None:
            self._merger.close()
            self._merger = None


class KeyedChunks:
    """Takes apart what a ``KeyedWriter`` has put together: the elements of a key.

    It knows how chunks with one element begin, of which only the value is decoded then.

    A chunk of one element is its time, windows and pane, and then its value. Elements share the
    first with many others, so that is decoded once for all chunks that begin with the same bytes.

    Args:
        is_late: whether an element, with one window, is to be dropped.

    Attributes:
        decode_value: ``decode_value(rest)``: the value of a chunk, without the bytes before it.
    """

    def __init__(self, coding: ElementCoding, is_late: Callable[[Any], bool]) -> None:
        self.decode_value = coding.value.decode_nested
        self._decode_metadata = coding.metadata.decode
        self._is_late = is_late

    def start(self, chunk: bytes) -> Start | None:
        """How a chunk begins; None if it has several elements or windows, or is late."""
        if not chunk.startswith(_ONE):
            return None
        # Whatever follows the metadata counts as the value, which is bytes for this coder.
        element = self._decode_metadata(chunk[len(_ONE) :])
        if len(element.windows) != 1 or self._is_late(element):
            return None
        return chunk[: len(chunk) - len(element.value)], element
