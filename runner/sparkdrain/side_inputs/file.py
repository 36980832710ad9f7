"""A side input as a file: sorted entries with an index, read through a memory map.

``[entry...][offset u64 * n][n u64]``; an entry is ``[section size u16][key size u32]
[chunk count u32][section][key]([chunk size u32][chunk])*``, in the order of (section, key). The
section is the encoded window; the key is the encoded key of a multimap, or empty.
"""

from __future__ import annotations

import mmap
import struct
from array import array
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from sparkdrain.shuffle.chunk_file import Extent

_ENTRY = struct.Struct(">HII")
_SIZE = struct.Struct(">I")
_COUNT = struct.Struct("<Q")


def write_side_file(
    file: IO[bytes], groups: Iterable[tuple[bytes, bytes, list[bytes | Extent]]]
) -> None:
    """Write ``groups`` (section, key, chunks), which come sorted by section and key."""
    offsets = array("Q")
    position = 0
    for section, key, chunks in groups:
        offsets.append(position)
        file.write(_ENTRY.pack(len(section), len(key), len(chunks)))
        file.write(section)
        file.write(key)
        position += _ENTRY.size + len(section) + len(key)
        for chunk in chunks:
            data = chunk if isinstance(chunk, bytes) else chunk.load()
            file.write(_SIZE.pack(len(data)))
            file.write(data)
            position += 4 + len(data)
    offsets.tofile(file)
    file.write(_COUNT.pack(len(offsets)))


class SideFile:
    """Looks entries up in a side input file."""

    is_for_all_threads = True

    def __init__(self, content: bytes | mmap.mmap) -> None:
        self._map = content
        (self._count,) = _COUNT.unpack_from(self._map, len(self._map) - 8)
        self._index = len(self._map) - 8 - 8 * self._count

    @classmethod
    def at(cls, path: Path) -> SideFile:
        """The file at a path, mapped: all processes of a machine share its pages."""
        with path.open("rb") as file:
            return cls(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))

    def _offset(self, entry: int) -> int:
        return _COUNT.unpack_from(self._map, self._index + 8 * entry)[0]

    def _key(self, entry: int) -> tuple[bytes, bytes]:
        position = self._offset(entry)
        section, key, _ = _ENTRY.unpack_from(self._map, position)
        position += _ENTRY.size
        return (
            self._map[position : position + section],
            self._map[position + section : position + section + key],
        )

    def _find(self, wanted: tuple[bytes, bytes]) -> int:
        low, high = 0, self._count
        while low < high:
            middle = (low + high) // 2
            if self._key(middle) < wanted:
                low = middle + 1
            else:
                high = middle
        return low

    def chunks(self, section: bytes, key: bytes) -> Iterator[bytes]:
        """The value chunks of an entry; nothing if it is not there."""
        entry = self._find((section, key))
        if entry < self._count and self._key(entry) == (section, key):
            yield from self._chunks(entry)

    def _chunks(self, entry: int) -> Iterator[bytes]:
        position = self._offset(entry)
        section, key, count = _ENTRY.unpack_from(self._map, position)
        position += _ENTRY.size + section + key
        for _ in range(count):
            (size,) = _SIZE.unpack_from(self._map, position)
            yield self._map[position + 4 : position + 4 + size]
            position += 4 + size

    def keys(self, section: bytes) -> Iterator[tuple[bytes, Iterator[bytes]]]:
        """Each key of a section with its chunks."""
        for entry in range(self._find((section, b"")), self._count):
            found, key = self._key(entry)
            if found != section:
                return
            yield key, self._chunks(entry)

    def values(
        self, section: bytes, key: bytes, decode: Callable[[bytes], list[Any]]
    ) -> Iterator[Any]:
        """The decoded values of an entry, one chunk at a time."""
        for chunk in self.chunks(section, key):
            yield from decode(chunk)
