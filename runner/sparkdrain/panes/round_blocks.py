"""The blocks of one round, merged by key; empty again for the next round."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

from sparkdrain.shuffle.merging import GroupMerger

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

_COUNT = struct.Struct(">i")


class RoundBlocks:
    """Collects grouped blocks within a budget of memory; more of them are on disk."""

    def __init__(self, memory_bytes: int, scratch: Callable[[], Path]) -> None:
        self._memory_bytes = memory_bytes
        self._scratch = scratch
        self._merger: GroupMerger | None = None
        self._spilled = 0

    @property
    def spilled_bytes(self) -> int:
        """Bytes that went to disk so far."""
        return self._spilled + (self._merger.spilled_bytes if self._merger is not None else 0)

    def add(self, payload: memoryview) -> None:
        """Collect a block."""
        if self._merger is None:
            self._merger = GroupMerger(self._memory_bytes, self._scratch)
        self._merger.add(bytes(payload))

    def groups(self) -> Iterator[tuple[bytes, bytes, list[Any]]]:
        """Section, key and chunks of every group, once; chunks are readable until the next."""
        if self._merger is not None:
            yield from self._merger.groups()
        self.clear()

    def clear(self) -> None:
        """Let go of everything."""
        if self._merger is not None:
            self._spilled = self.spilled_bytes
            self._merger.close()
            self._merger = None


def loaded(chunks: Iterable[Any]) -> Iterator[bytes]:
    """Chunks one by one, those on disk when it is their turn."""
    return (chunk if type(chunk) is bytes else chunk.load() for chunk in chunks)


def values_in(chunk: Any) -> int:
    """How many values there are in a chunk."""
    count: int = _COUNT.unpack_from(chunk if type(chunk) is bytes else chunk.load(4))[0]
    return count
