"""The values of a pane: read from state as chunks, handed out as an iterable that stays readable.

State is cleared when its pane was handed out, but what was handed out may be kept by the user, so
it does not read from state: few values are in memory, many are copied to a file of their own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sparkdrain.shuffle.chunk_file import ChunkFile
from sparkdrain.shuffle.values import ValueDecoder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from apache_beam import coders

_IN_MEMORY = 4 << 20


class PaneValues:
    """Makes what users see of a pane.

    Args:
        scratch: where values go that are too many for memory.
    """

    def __init__(self, coder: coders.Coder, scratch: Callable[[], Path]) -> None:
        self.in_memory = ValueDecoder(coder).values
        """The values in chunks, which are all in memory anyway."""
        self._scratch = scratch

    def of(self, chunks: Iterable[bytes]) -> Any:
        """The values in ``chunks``, which are read once; the result can be iterated repeatedly."""
        kept: list[Any] = []
        size = 0
        file: ChunkFile | None = None
        for chunk in chunks:
            size += len(chunk)
            if file is None and size > _IN_MEMORY and kept:
                file = ChunkFile(self._scratch())
                kept = [file.append(early) for early in kept]
            kept.append(chunk if file is None else file.append(chunk))
        return self.in_memory(kept) if kept else []
