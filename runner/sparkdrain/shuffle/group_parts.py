"""Spilled groups, dealt out by the hash of their section and key, so that each part is small."""

from __future__ import annotations

import os
import struct
import tempfile
from typing import IO, TYPE_CHECKING, Any, Final

from sparkdrain.shuffle.grouped_blocks import cuts, decode_groups, encode_groups

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from sparkdrain.shuffle.group_table import GroupTable

PARTS: Final = 64
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


class GroupParts:
    """A file of parts. A group is in one part, in as many pieces as it has come in.

    Attributes:
        size: an estimate, in bytes, of Python's memory for what is not written yet.
    """

    def __init__(self, directory: Path) -> None:
        handle, name = tempfile.mkstemp(prefix="parts-", dir=directory)
        self._file = os.fdopen(handle, "w+b", buffering=1 << 20)
        # Unlinked at once: nothing is left behind, however this process ends.
        os.unlink(name)
        # Of each part, the pieces that were written: where they begin and end.
        self._extents: list[list[tuple[int, int]]] = [[] for _ in range(PARTS)]
        self._waiting: list[list[_Groups]] = [[] for _ in range(PARTS)]
        self.size = 0

    def add(self, payload: bytes) -> None:
        """Take in the payload of a block."""
        section, groups = decode_groups(payload)
        count = self._deal(section, groups)
        parts = min(count, PARTS)
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
            part = ((hash(key) ^ of_section) >> _SHIFT) % PARTS
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
