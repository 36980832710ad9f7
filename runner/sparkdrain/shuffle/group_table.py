"""Chunks by section and key, as far as memory has room for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sparkdrain.shuffle.grouped_blocks import split_groups

if TYPE_CHECKING:
    from collections.abc import Iterator

# What Python needs for a key and its first chunk beside their bytes.
_ENTRY_OVERHEAD = 200
_CHUNK_OVERHEAD = 60

Key = tuple[bytes, bytes]
"""Section and encoded key."""


class GroupTable:
    """Puts the groups of blocks together.

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
