"""The values of a pane: read from state as chunks, handed out as an iterable that stays readable.

State is cleared when its pane was handed out, but what was handed out may be kept by the user, so
it does not read from state: few values are in memory, many are copied to a file of their own.
"""

from __future__ import annotations

import os
import tempfile
import weakref
from typing import TYPE_CHECKING, Any

from sparkdrain.shuffle.values import ValueDecoder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from apache_beam import coders

_IN_MEMORY = 4 << 20


class PaneFile:
    """Chunks on disk, for as long as anybody has one of them."""

    def __init__(self, directory: Path) -> None:
        self._fd, name = tempfile.mkstemp(prefix="pane-", dir=directory)
        # Unlinked at once: nothing is left behind, however this process ends.
        os.unlink(name)
        weakref.finalize(self, os.close, self._fd)
        self._end = 0

    def append(self, chunk: bytes) -> PaneChunk:
        """Write a chunk."""
        view = memoryview(chunk)
        while view:
            view = view[os.pwrite(self._fd, view, self._end + len(chunk) - len(view)) :]
        self._end += len(chunk)
        return PaneChunk(self, self._end - len(chunk), len(chunk))

    def read(self, offset: int, size: int) -> bytes:
        """The bytes at ``offset``.

        Raises:
            OSError: the file is shorter.
        """
        parts = []
        while size:
            part = os.pread(self._fd, size, offset)
            if not part:
                msg = f"the file of a large pane ended {size} bytes early"
                raise OSError(msg)
            parts.append(part)
            offset += len(part)
            size -= len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)


class PaneChunk:
    """A chunk of a pane on disk."""

    __slots__ = ("_file", "_offset", "_size")

    def __init__(self, file: PaneFile, offset: int, size: int) -> None:
        self._file = file
        self._offset = offset
        self._size = size

    def load(self, size: int | None = None) -> bytes:
        """Read it, or its first ``size`` bytes."""
        return self._file.read(self._offset, self._size if size is None else size)


class PaneValues:
    """Makes what users see of a pane.

    Args:
        coder: of one value.
        scratch: where values go that are too many for memory.
    """

    def __init__(self, coder: coders.Coder, scratch: Callable[[], Path]) -> None:
        self._values = ValueDecoder(coder).values
        self._scratch = scratch

    def of(self, chunks: Iterable[bytes]) -> Any:
        """The values in ``chunks``, which are read once; the result can be iterated repeatedly."""
        kept: list[Any] = []
        size = 0
        file: PaneFile | None = None
        for chunk in chunks:
            size += len(chunk)
            if file is None and size > _IN_MEMORY and kept:
                file = PaneFile(self._scratch())
                kept = [file.append(early) for early in kept]
            kept.append(chunk if file is None else file.append(chunk))
        return self._values(kept) if kept else []
