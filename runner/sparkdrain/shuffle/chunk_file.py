"""A file without a name, for chunks that are too much for memory."""

from __future__ import annotations

import os
import tempfile
import weakref
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(slots=True, eq=False)
class Extent:
    """A chunk on disk."""

    _file: ChunkFile
    _offset: int
    _size: int

    def __len__(self) -> int:
        return self._size

    def load(self, size: int | None = None, start: int = 0) -> bytes:
        """Read it, or ``size`` bytes of it that begin at ``start``."""
        return self._file.read(self._offset + start, self._size - start if size is None else size)


class ChunkFile:
    """Chunks on disk, until it is closed or none of them is in use."""

    def __init__(self, directory: Path) -> None:
        self._fd, name = tempfile.mkstemp(prefix="chunks-", dir=directory)
        # Unlinked at once: nothing is left behind, however this process ends.
        os.unlink(name)
        self._close = weakref.finalize(self, os.close, self._fd)
        self._end = 0

    def append(self, chunk: bytes | memoryview) -> Extent:
        """Write a chunk."""
        view = memoryview(chunk)
        while view:
            view = view[os.pwrite(self._fd, view, self._end + len(chunk) - len(view)) :]
        self._end += len(chunk)
        return Extent(self, self._end - len(chunk), len(chunk))

    def read(self, offset: int, size: int) -> bytes:
        """The bytes at ``offset``.

        Raises:
            OSError: the file is shorter.
        """
        data = os.pread(self._fd, size, offset)
        while len(data) < size:
            more = os.pread(self._fd, size - len(data), offset + len(data))
            if not more:
                msg = f"a file of chunks ended {size - len(data)} bytes early"
                raise OSError(msg)
            data += more
        return data

    def close(self) -> None:
        """Give the disk space back."""
        self._close()
