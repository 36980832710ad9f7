"""Grouping by sorted runs, for what is wanted in order or has keys larger than memory.

When the table passes its budget it is written out, sorted, as a run. At the end the runs and the
table are merged. A key's values are never all in memory unless they are few: large groups are
streams over chunks, some of them on disk, that can be iterated again and again.
"""

from __future__ import annotations

import heapq
import os
import struct
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from sparkdrain.shuffle.chunk_file import ChunkFile, Extent
from sparkdrain.shuffle.grouped_blocks import GroupTable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from sparkdrain.shuffle.grouped_blocks import Key

_ENTRY = struct.Struct(">IIQ")
_SIZE = struct.Struct(">I")
_INLINE_ENTRY = 1 << 20


class SortedRun(ChunkFile):
    """A sorted run on disk.

    ``[section size u32][key size u32][size u64][section][key]([chunk size u32][chunk])*`` for each
    entry, where ``size`` is that of all its chunks with their sizes.
    """

    def write(self, entries: Iterable[tuple[Key, list[bytes]]]) -> None:
        """Append ``entries``, which come in key order."""
        with os.fdopen(os.dup(self._fd), "wb", buffering=1 << 20) as file:
            for (section, key), chunks in entries:
                total = sum(map(len, chunks)) + 4 * len(chunks)
                file.write(_ENTRY.pack(len(section), len(key), total))
                file.write(section)
                file.write(key)
                for chunk in chunks:
                    file.write(_SIZE.pack(len(chunk)))
                    file.write(chunk)
                self._end += _ENTRY.size + len(section) + len(key) + total

    def entries(self) -> Iterator[tuple[Key, list[bytes | Extent]]]:
        """All entries in key order; chunks of large ones stay on disk."""
        with os.fdopen(os.dup(self._fd), "rb", buffering=1 << 20) as file:
            file.seek(0)
            position = 0
            while position < self._end:
                section_size, key_size, total = _ENTRY.unpack(file.read(_ENTRY.size))
                key = file.read(section_size), file.read(key_size)
                position += _ENTRY.size + section_size + key_size
                if total <= _INLINE_ENTRY:
                    yield key, list(_inline_chunks(file.read(total)))
                else:
                    yield key, list(self._extents(position, total))
                    file.seek(position + total)
                position += total

    def _extents(self, position: int, total: int) -> Iterator[bytes | Extent]:
        end = position + total
        while position < end:
            (size,) = _SIZE.unpack(self.read(position, 4))
            yield Extent(self, position + 4, size)
            position += 4 + size


def _inline_chunks(data: bytes) -> Iterator[bytes | Extent]:
    position = 0
    while position < len(data):
        (size,) = _SIZE.unpack_from(data, position)
        yield data[position + 4 : position + 4 + size]
        position += 4 + size


class SortMerger:
    """Collects grouped blocks, then hands out groups; memory stays near the budget.

    Args:
        budget_bytes: estimate of Python's memory at which the table is spilled.
        directory: where runs go; asked for at the first spill.
    """

    def __init__(self, budget_bytes: int, directory: Callable[[], Path]) -> None:
        self._budget = budget_bytes
        self._directory = directory
        self._table = GroupTable()
        self._runs: list[SortedRun] = []

    def add(self, payload: bytes) -> None:
        """Take in the payload of a block."""
        self._table.add(payload)
        if self._table.size > self._budget:
            self._spill()

    def _spill(self) -> None:
        run = SortedRun(self._directory())
        run.write(self._table.in_order())
        self._runs.append(run)
        self._table = GroupTable()

    def groups(self) -> Iterator[tuple[bytes, bytes, list[Any]]]:
        """Section, key and chunks of every group, in any order."""
        return self._merged() if self._runs else self._table.groups()

    def sorted_groups(self) -> Iterator[tuple[bytes, bytes, list[Any]]]:
        """The same, sorted by section and key."""
        if self._runs:
            yield from self._merged()
        else:
            for key, chunks in self._table.in_order():
                yield *key, chunks

    def _merged(self) -> Iterator[tuple[bytes, bytes, list[Any]]]:
        # The last table becomes a run like the others, so that its memory is free for the merge.
        self._spill()
        merged = heapq.merge(*(run.entries() for run in self._runs), key=itemgetter(0))
        current: Key | None = None
        chunks: list[Any] = []
        for key, more in merged:
            if key == current:
                chunks.extend(more)
                continue
            if current is not None:
                yield *current, chunks
            current, chunks = key, list(more)
        if current is not None:
            yield *current, chunks

    def close(self) -> None:
        """Give disk space back; groups handed out before can no longer be read."""
        for run in self._runs:
            run.close()
        self._runs = []
