"""The blocks of one round, kept as they came until the round is processed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sparkdrain.shuffle.chunk_file import ChunkFile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


class RoundBlocks:
    """Collects payloads of blocks within a budget of memory; what is more of them is on disk."""

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
