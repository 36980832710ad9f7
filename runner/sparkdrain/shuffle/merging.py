"""The consumer side of grouping: chunks are put together by key, in bounded memory.

They are collected in a table. What passes its budget is dealt out on disk by the hash of section
and key, unsorted, and each part is put together alone. A part that is larger than memory, as it is
if a key is, goes through sorted runs.
"""

from __future__ import annotations

import os
import struct
import tempfile
from typing import IO, TYPE_CHECKING, Any, Final

from sparkdrain.shuffle.grouped_blocks import GroupTable, cuts, decode_groups, encode_groups
from sparkdrain.shuffle.sort_merging import SortMerger

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

_PARTS: Final = 64
# The lowest bits say where a dict puts a key: parts whose keys share these would make poor dicts.
_SHIFT: Final = 40
_SIZE: Final = struct.Struct(">I")
_BUFFER: Final = 1 << 18
# A key with many chunks is not put together whole.
_PIECE_BYTES: Final = 4 << 20
# What Python needs for a key and its chunk beside their bytes, and for the groups of a part.
_ENTRY_OVERHEAD: Final = 90
_GROUPS_OVERHEAD: Final = 250

_Groups = tuple[bytes, list[bytes], list[bytes]]
"""A section, and of each group in it the key and a chunk."""


class GroupMerger:
    """Collects grouped blocks, then hands out groups; memory stays near the budget.

    Args:
        budget_bytes: estimate of Python's memory at which the table is spilled.
        directory: where spilled data goes; asked for at the first spill.

    Attributes:
        spilled_bytes: the estimate of what went to disk.
    """

    def __init__(self, budget_bytes: int, directory: Callable[[], Path]) -> None:
        self._budget = budget_bytes
        self._directory = directory
        self._table = GroupTable()
        self._parts: _GroupParts | None = None
        # Large groups are read from these until the end.
        self._mergers: list[SortMerger] = []
        self.spilled_bytes = 0

    def add(self, payload: bytes) -> None:
        """Take in the payload of a block."""
        if self._parts is not None:
            self._parts.add(payload)
            if self._parts.size > self._budget:
                self._write(self._parts)
            return
        self._table.add(payload)
        if self._table.size > self._budget:
            # All that follows is dealt out at once: it will be put together part by part.
            self._parts = _GroupParts(self._directory())
            self._parts.add_table(self._table)
            self._table = GroupTable()
            self._write(self._parts)

    def _write(self, parts: _GroupParts) -> None:
        self.spilled_bytes += parts.size
        parts.write()

    def groups(self) -> Iterator[tuple[bytes, bytes, list[Any]]]:
        """Section, key and chunks of every group, each once, in any order.

        A chunk that is not ``bytes`` is an ``Extent``, which can be loaded until this is closed.
        """
        if self._parts is None:
            yield from self._table.groups()
            return
        # The rest too, so that its memory is free.
        self._write(self._parts)
        for part in range(_PARTS):
            merger = SortMerger(self._budget, self._directory)
            self._mergers.append(merger)
            for payload in self._parts.read(part):
                merger.add(payload)
            yield from merger.groups()

    def table(self) -> dict[bytes, Any] | None:
        """The chunk or chunks of each key; None if some are on disk, or in other sections.

        Of no use after the next call of another method.
        """
        if self._parts is not None or len(self._table.sections) != 1:
            return None
        (table,) = self._table.sections.values()
        return table

    def close(self) -> None:
        """Give disk space back; groups handed out before can no longer be read."""
        if self._parts is not None:
            self._parts.close()
            self._parts = None
        for merger in self._mergers:
            merger.close()
        self._mergers = []


class _GroupParts:
    """Spilled groups, dealt out by the hash of their section and key, so that each part is small.

    They are in a file. A group is in one part, in as many pieces as it has come in.

    Attributes:
        size: an estimate, in bytes, of Python's memory for what is not written yet.
    """

    def __init__(self, directory: Path) -> None:
        handle, name = tempfile.mkstemp(prefix="parts-", dir=directory)
        self._file = os.fdopen(handle, "w+b", buffering=1 << 20)
        # Unlinked at once: nothing is left behind, however this process ends.
        os.unlink(name)
        # Of each part, the pieces that were written: where they begin and end.
        self._extents: list[list[tuple[int, int]]] = [[] for _ in range(_PARTS)]
        self._waiting: list[list[_Groups]] = [[] for _ in range(_PARTS)]
        self.size = 0

    def add(self, payload: bytes) -> None:
        """Take in the payload of a block."""
        section, groups = decode_groups(payload)
        count = self._deal(section, groups)
        parts = min(count, _PARTS)
        self.size += len(payload) + parts * _GROUPS_OVERHEAD + count * _ENTRY_OVERHEAD

    def add_table(self, table: GroupTable) -> None:
        """Take in what is in ``table``; a key stands before each of its chunks."""
        for section, groups in table.sections.items():
            self._deal(section, _one_by_one(groups))
        self.size += table.size

    def _deal(self, section: bytes, groups: Iterable[tuple[bytes, bytes]]) -> int:
        of_section = hash(section)
        parts: dict[int, _Groups] = {}
        count = 0
        for key, chunk in groups:
            part = ((hash(key) ^ of_section) >> _SHIFT) % _PARTS
            if part in parts:
                _, keys, chunks = parts[part]
                keys.append(key)
                chunks.append(chunk)
            else:
                parts[part] = section, [key], [chunk]
            count += 1
        for part, found in parts.items():
            self._waiting[part].append(found)
        return count

    def write(self) -> None:
        """Have everything on disk."""
        file = self._file
        begin = file.seek(0, os.SEEK_END)
        for extents, waiting in zip(self._extents, self._waiting, strict=True):
            for section, keys, chunks in waiting:
                for first, last in cuts(chunks, _PIECE_BYTES):
                    payload = encode_groups(section, keys[first:last], chunks[first:last])
                    file.write(_SIZE.pack(len(payload)))
                    file.write(payload)
            waiting.clear()
            end = file.tell()
            if end > begin:
                extents.append((begin, end))
            begin = end
        file.flush()
        self.size = 0

    def read(self, part: int) -> Iterator[bytes]:
        """The payloads of a part."""
        with os.fdopen(os.dup(self._file.fileno()), "rb", buffering=_BUFFER) as file:
            for begin, end in self._extents[part]:
                file.seek(begin)
                position = begin
                while position < end:
                    (size,) = _SIZE.unpack(_whole(file, _SIZE.size))
                    yield _whole(file, size)
                    position += _SIZE.size + size

    def close(self) -> None:
        """Give the disk space back."""
        self._file.close()


def _one_by_one(groups: dict[bytes, Any]) -> Iterator[tuple[bytes, bytes]]:
    for key, chunks in groups.items():
        if type(chunks) is list:
            for chunk in chunks:
                yield key, chunk
        else:
            yield key, chunks


def _whole(file: IO[bytes], size: int) -> bytes:
    data = file.read(size)
    if len(data) != size:
        message = f"a file of spilled groups ended {size - len(data)} bytes early"
        raise OSError(message)
    return data
