"""Files that clients have staged, by their content: who stages one again need not send it."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import threading
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from pathlib import Path

_MOST_BYTES: Final = 1 << 30


class _Mark(NamedTuple):
    """What a file shows of a change: each write, and each replacement, changes one of these."""

    inode: int
    size: int
    written: int
    changed: int


class KeptFiles:
    """Copies of files in a folder, under their SHA-256. Those used last are kept. Thread-safe.

    Each job has a copy of its own. A kept file that has changed is not used, and not read to tell.

    Args:
        folder: on the disk of the jobs' files; it need not be there.
        most_bytes: how much is kept.
    """

    def __init__(self, folder: Path, most_bytes: int = _MOST_BYTES) -> None:
        self._folder = folder
        self._most_bytes = most_bytes
        self._lock = threading.Lock()
        # The one that was used last comes last.
        self._marks: dict[str, _Mark] = {}

    def put(self, sha256: str, target: Path) -> bool:
        """Have a copy at ``target``; whether there was a file of this content."""
        with self._lock:
            mark = self._marks.pop(sha256, None)
            if mark is None:
                return False
            self._marks[sha256] = mark
        kept = self._folder / sha256
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(kept, target)
            is_same = _mark(kept) == mark
        except OSError:
            is_same = False
        if not is_same:
            self._drop(sha256)
        return is_same

    def keep(self, path: Path, sha256: str) -> None:
        """Keep a file of this content; does without if the disk does not take it."""
        with contextlib.suppress(OSError):
            self._folder.mkdir(parents=True, exist_ok=True)
            new, kept = self._folder / f"new-{secrets.token_hex(8)}", self._folder / sha256
            try:
                shutil.copyfile(path, new)
                with self._lock:
                    os.replace(new, kept)
                    self._marks[sha256] = _mark(kept)
            finally:
                new.unlink(missing_ok=True)
            for old in self._beyond():
                self._drop(old)

    def close(self) -> None:
        """Drop all."""
        with self._lock:
            self._marks.clear()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _beyond(self) -> list[str]:
        """The SHA-256 of each file that has no room beside those that were used after it."""
        found, total = [], 0
        with self._lock:
            for sha256, mark in reversed(self._marks.items()):
                total += mark.size
                if total > self._most_bytes:
                    found.append(sha256)
        return found

    def _drop(self, sha256: str) -> None:
        with self._lock:
            self._marks.pop(sha256, None)
            with contextlib.suppress(OSError):
                (self._folder / sha256).unlink()


def _mark(file: Path) -> _Mark:
    stat = file.stat()
    return _Mark(stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns)
