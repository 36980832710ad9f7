"""The blocks of a round of a KEYED edge, merged by key; empty again for the next round."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from sparkdrain.shuffle.merging import GroupMerger

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

InMemory = Callable[[dict[bytes, Any]], "Iterable[tuple[bytes, Any]]"]


class KeyedBlocks:
    """Collects grouped blocks within a budget of memory; what is more of them is on disk.

    Args:
        memory_bytes: the budget.
        scratch: where the rest goes; asked for when needed.
    """

    def __init__(self, memory_bytes: int, scratch: Callable[[], Path]) -> None:
        self._memory_bytes = memory_bytes
        self._scratch = scratch
        self._merger: GroupMerger | None = None

    def add(self, payload: memoryview) -> None:
        """Collect a block."""
        if self._merger is None:
            self._merger = GroupMerger(self._memory_bytes, self._scratch)
        self._merger.add(bytes(payload))

    def groups(self, in_memory: InMemory) -> Iterable[tuple[bytes, Any]]:
        """Every key, once, and its chunk, or chunks to be read before the next key is asked for.

        ``in_memory`` hands them out if all are in a table.
        """
        if self._merger is None:
            return ()
        table = self._merger.table()
        return self._merged(self._merger) if table is None else in_memory(table)

    def _merged(self, merger: GroupMerger) -> Iterator[tuple[bytes, Any]]:
        for _, key, chunks in merger.groups():
            yield key, (chunk if type(chunk) is bytes else chunk.load() for chunk in chunks)

    def clear(self) -> None:
        """Let go of everything."""
        if self._merger is not None:
            self._merger.close()
            self._merger = None
