"""A file for what is too much for memory; it goes when no chunk of it is in use."""

from __future__ import annotations

import os
import tempfile
import weakref
from typing import TYPE_CHECKING

from sparkdrain.shuffle.sort_merging import Extent

if TYPE_CHECKING:
    from pathlib import Path


class PaneFile:
    """Chunks on disk, for as long as one of them is in use."""

    def __init__(self, directory: Path) -> None:
        self._fd, name = tempfile.mkstemp(prefix="pane-", dir=directory)
        # Unlinked at once: nothing is left behind, however this process ends.
        os.unlink(name)
        weakref.finalize(self, os.close, self._fd)
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
