"""A file system of Beam's, ``hanging://...``, that takes no files of state while it is told so."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from tests.support.needy_file_system import NeedyFileSystem

if TYPE_CHECKING:
    from pathlib import Path

SCHEME = "hanging"
_LONGEST = 120.0


class HangingFileSystem(NeedyFileSystem):
    """As ``needy://``. Who hangs leaves a file below ``waiting``."""

    @classmethod
    def scheme(cls):
        return SCHEME

    def create(self, path, mime_type="", compression_type=None):
        if "/files/" in path and closed(self._root).exists():
            self._hang()
        return super().create(path, mime_type, compression_type)

    def _hang(self) -> None:
        mark = waiting(self._root) / str(os.getpid())
        mark.parent.mkdir(exist_ok=True)
        mark.touch()
        end = time.monotonic() + _LONGEST
        while closed(self._root).exists() and time.monotonic() < end:
            time.sleep(0.01)


def closed(root: Path) -> Path:
    """The file that says that no file of state is taken."""
    return root / "closed"


def waiting(root: Path) -> Path:
    """The folder with the processes that hang, or did."""
    return root / "waiting"
