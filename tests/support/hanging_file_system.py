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
_WAITING = "waiting"


class HangingFileSystem(NeedyFileSystem):
    """As ``needy://``. Who hangs leaves a file with its process id."""

    @classmethod
    def scheme(cls):
        return SCHEME

    def create(self, path, mime_type="", compression_type=None):
        if "/files/" in path and closed(self._root).exists():
            self._hang()
        return super().create(path, mime_type, compression_type)

    def _hang(self) -> None:
        folder = self._root / _WAITING
        folder.mkdir(exist_ok=True)
        (folder / str(os.getpid())).touch()
        end = time.monotonic() + _LONGEST
        while closed(self._root).exists() and time.monotonic() < end:
            time.sleep(0.01)


def closed(root: Path) -> Path:
    """The file that says that no file of state is taken."""
    return root / "closed"


def waiting(root: Path) -> list[int]:
    """The processes that hang, or did."""
    return [int(mark.name) for mark in root.glob(f"{_WAITING}/*")]
