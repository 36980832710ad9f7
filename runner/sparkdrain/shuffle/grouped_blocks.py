"""The payload of a block of grouped values, columns of keys and of value chunks, and a table of it.

``[section size u32][section][count u32][key sizes u32 * n][chunk sizes u32 * n][keys][chunks]``.
A section is what groups share beside the key (an encoded window, or nothing); a chunk is a list
of values as a list coder writes it: ``[count i32][values in nested coding]``.
"""

from __future__ import annotations

import struct
from array import array
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any, Final

from sparkdrain.shuffle.keys import Owners

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_U32 = struct.Struct(">I")
_SOME: Final = 1024
# What Python needs for a key and its first chunk beside their bytes.
_ENTRY_OVERHEAD = 200
_CHUNK_OVERHEAD = 60

Key = tuple[bytes, bytes]
"""Section and encoded key."""


def encode_groups(section: bytes, keys: list[bytes], chunks: list[bytes]) -> bytes:
    """The payload for ``keys`` and the chunk of each."""
    sizes = array("I", map(len, keys))
    sizes.extend(map(len, chunks))
    head = (_U32.pack(len(section)), section, _U32.pack(len(keys)), sizes.tobytes())
    return b"".join((*head, *keys, *chunks))


def decode_groups(payload: bytes) -> tuple[bytes, Iterator[tuple[bytes, bytes]]]:
    """The section, and pairs of key and chunk."""
    section, keys, chunks = split_groups(payload)
    return section, zip(keys, chunks, strict=True)


def decode_some(payload: bytes) -> Iterator[Iterator[tuple[bytes, bytes]]]:
    """Pairs of key and chunk, some at a time: what is made of a payload stays in the cache."""
    _, ends, count = _layout(payload)
    for start in range(0, count, _SOME):
        stop = min(start + _SOME, count)
        keys = [payload[a:b] for a, b in pairwise(ends[start : stop + 1])]
        chunks = [payload[a:b] for a, b in pairwise(ends[count + start : count + stop + 1])]
        yield zip(keys, chunks, strict=True)


def split_groups(payload: bytes) -> tuple[bytes, list[bytes], list[bytes]]:
    """The section, the keys, and the chunk of each."""
    section, ends, count = _layout(payload)
    keys = [payload[a:b] for a, b in pairwise(ends[: count + 1])]
    chunks = [payload[a:b] for a, b in pairwise(ends[count:])]
    return section, keys, chunks


def _layout(payload: bytes) -> tuple[bytes, list[int], int]:
    """The section; where keys and then chunks begin, and the last one ends; the number of keys."""
    (section_size,) = _U32.unpack_from(payload)
    position = 4 + section_size
    section = payload[4:position]
    (count,) = _U32.unpack_from(payload, position)
    position += 4
    sizes = array("I")
    sizes.frombytes(payload[position : position + 8 * count])
    return section, list(accumulate(sizes, initial=position + 8 * count)), count


def cuts(chunks: Sequence[bytes], limit: int) -> list[tuple[int, int]]:
    """Where to cut ``chunks``, so that each part has about ``limit`` bytes."""
    if sum(map(len, chunks)) < limit:
        return [(0, len(chunks))] if chunks else []
    ends = [0]
    enough = limit
    for number, size in enumerate(accumulate(map(len, chunks))):
        if size >= enough:
            ends.append(number + 1)
            enough = size + limit
    if ends[-1] != len(chunks):
        ends.append(len(chunks))
    return list(pairwise(ends))


def part_of_slot(payload: bytes, slot: int, slots: int) -> bytes:
    """The payload for those keys that one of ``slots`` has; empty if there are none."""
    section, keys, chunks = split_groups(payload)
    mine = [at for at, owner in enumerate(Owners(range(slots)).of(keys)) if owner == slot]
    if not mine:
        return b""
    return encode_groups(section, [keys[at] for at in mine], [chunks[at] for at in mine])


class GroupTable:
    """Chunks by section and key, as far as memory has room for them.

    Attributes:
        size: an estimate, in bytes, of Python's memory.
        sections: for each section, by encoded key, a chunk or the list of several.
    """

    __slots__ = ("sections", "size")

    def __init__(self) -> None:
        self.sections: dict[bytes, dict[bytes, Any]] = {}
        self.size = 0

    def add(self, payload: bytes) -> None:
        """Take in the payload of a block."""
        section, keys, chunks = split_groups(payload)
        table = self.sections.setdefault(section, {})
        before = len(table)
        put = table.setdefault
        for key, chunk in zip(keys, chunks, strict=True):
            known = put(key, chunk)
            # Invariant: no two chunks are one object, not even equal ones. Each is cut from a
            # payload, and begins with its count; only bytes shorter than two are shared.
            if known is not chunk:
                if type(known) is list:
                    known.append(chunk)
                else:
                    table[key] = [known, chunk]
        new = len(table) - before
        self.size += len(payload) + new * _ENTRY_OVERHEAD + (len(keys) - new) * _CHUNK_OVERHEAD

    def groups(self) -> Iterator[tuple[bytes, bytes, list[Any]]]:
        """Section, key and chunks of every group, by section; the table is empty afterwards."""
        while self.sections:
            section, table = self.sections.popitem()
            for key, chunks in table.items():
                yield section, key, chunks if type(chunks) is list else [chunks]
        self.size = 0

    def in_order(self) -> Iterator[tuple[Key, list[Any]]]:
        """Chunks of every group, sorted by section and key."""
        for section in sorted(self.sections):
            table = self.sections[section]
            for key in sorted(table):
                chunks = table[key]
                yield (section, key), chunks if type(chunks) is list else [chunks]
