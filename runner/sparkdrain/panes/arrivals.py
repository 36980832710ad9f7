"""What came in a round: blocks as they came, and then by window and key group."""

from __future__ import annotations

import struct
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from sparkdrain.panes.group_keys import group_keys, groups_of
from sparkdrain.shuffle.chunk_file import ChunkFile
from sparkdrain.shuffle.grouped_blocks import split_groups

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

Groups = tuple[list[bytes], list[bytes]]
"""Keys and the chunk of each; a key may be there several times."""

_COUNT = struct.Struct(">i")
_MOST_BYTES = 16 << 20
# What Python needs for a key and a chunk beside their bytes.
_OVERHEAD = 140


class RoundBlocks:
    """The blocks of one round, kept as they came until the round is processed.

    They are collected within a budget of memory; what is more of them is on disk.
    """

    def __init__(self, memory_bytes: int, scratch: Callable[[], Path]) -> None:
        self._memory_bytes = memory_bytes
        self._scratch = scratch
        self._file: ChunkFile | None = None
        self._payloads: list[Any] = []
        self._size = 0
        self.spilled_bytes = 0

    def add(self, payload: memoryview) -> None:
        """Collect a block."""
        self._size += len(payload)
        if self._size <= self._memory_bytes:
            self._payloads.append(bytes(payload))
            return
        if self._file is None:
            self._file = ChunkFile(self._scratch())
        self._payloads.append(self._file.append(payload))
        self.spilled_bytes += len(payload)

    def take_all(self) -> Iterator[bytes]:
        """The blocks in the order of their arrival, once."""
        payloads = self._payloads
        self.clear()
        payloads.reverse()
        while payloads:
            payload = payloads.pop()
            yield payload if type(payload) is bytes else payload.load()

    def clear(self) -> None:
        """Let go of everything."""
        self._payloads = []
        self._file = None
        self._size = 0


def sorted_out(
    payloads: Iterable[bytes], memory_bytes: int
) -> Iterator[tuple[bytes, bytes, Groups]]:
    """Sorts blocks by window and key group, some megabytes at a time.

    Args:
        memory_bytes: how much to sort at a time, at most.

    Returns:
        Section, the key that stands for the key group, and the group's keys and chunks.
    """
    most = min(memory_bytes, _MOST_BYTES)
    tables: dict[bytes, dict[int, Groups]] = {}
    size = 0
    for payload in payloads:
        section, keys, chunks = split_groups(payload)
        table = tables.get(section)
        if table is None:
            table = tables[section] = defaultdict(lambda: ([], []))
        for group, key, chunk in zip(groups_of(keys), keys, chunks, strict=True):
            of_group = table[group]
            of_group[0].append(key)
            of_group[1].append(chunk)
        size += len(payload) + _OVERHEAD * len(keys)
        if size >= most:
            yield from _by_group(tables)
            tables = {}
            size = 0
    yield from _by_group(tables)


def _by_group(tables: dict[bytes, dict[int, Groups]]) -> Iterator[tuple[bytes, bytes, Groups]]:
    names = group_keys()
    for section, table in tables.items():
        for group in sorted(table):
            yield section, names[group], table[group]


class Passing:
    """What comes in the round in which its window ends, if nothing of the window is in state.

    Args:
        memory_bytes: how much is kept here, at most.
    """

    def __init__(self, memory_bytes: int) -> None:
        self._most = memory_bytes
        self._size = 0
        # By the time when it fires, and the encoded window.
        self._windows: dict[tuple[int, bytes], dict[bytes, Groups]] = {}

    def put(self, fires: int, section: bytes, group: bytes, groups: Groups) -> bool:
        """Keep what came for a key group of a window; False if there is no room for it."""
        size = sum(map(len, groups[1])) + _OVERHEAD * len(groups[1])
        if self._size + size > self._most:
            return False
        self._size += size
        table = self._windows.setdefault((fires, section), {})
        known = table.get(group)
        if known is None:
            table[group] = groups
        else:
            for kept, more in zip(known, groups, strict=True):
                kept.extend(more)
        return True

    def times(self) -> list[int]:
        """When windows fire of which there is something, the first one first."""
        return sorted({fires for fires, _ in self._windows})

    def take(self, up_to: int) -> Iterator[tuple[bytes, bytes, Groups]]:
        """Take out, one by one, what fires by then: encoded window, key group, what came for it."""
        for window in sorted(self._windows):
            if window[0] > up_to:
                return
            table = self._windows[window]
            for group in sorted(table):
                yield window[1], group, table.pop(group)
            del self._windows[window]
        self.clear()

    def clear(self) -> None:
        """Let go of everything."""
        self._windows = {}
        self._size = 0


def values_in(chunks: Iterable[bytes]) -> int:
    """How many values there are in chunks, which are lists as a list coder writes them."""
    return sum(_COUNT.unpack_from(chunk)[0] for chunk in chunks)
