"""Files that clients have staged, by their content: who stages one again need not send it."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

_SHA256: Final = re.compile(r"[0-9a-f]{64}")
_MOST_BYTES: Final = 1 << 30
_CHUNK: Final = 1 << 20


class KeptFiles:
    """Files in a folder under their SHA-256. Those used last are kept. Thread-safe.

    Each job has a copy of its own, whose content is right even if what is kept was changed.

    Args:
        folder: on the disk of the jobs' files; it need not be there.
        most_bytes: how much is kept.
    """

    def __init__(self, folder: Path, most_bytes: int = _MOST_BYTES) -> None:
        self._folder = folder
        self._most_bytes = most_bytes

    def put(self, sha256: str, target: Path) -> bool:
        """Have a copy at ``target``; whether there was a file of this content."""
        if not _SHA256.fullmatch(sha256):
            return False
        kept = self._folder / sha256
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            found = _copied(kept, target)
            os.utime(kept)
        except OSError:
            return False
        if found != sha256:
            # The job that sent it has a link to it, and may have changed it.
            kept.unlink(missing_ok=True)
        return found == sha256

    def keep(self, path: Path, sha256: str) -> None:
        """Keep a file of this content; does without if the disk does not take it."""
        with contextlib.suppress(OSError):
            self._folder.mkdir(parents=True, exist_ok=True)
            os.link(path, self._folder / sha256)
            self._drop()

    def close(self) -> None:
        """Drop all."""
        shutil.rmtree(self._folder, ignore_errors=True)

    def _drop(self) -> None:
        """Drop those that have not been used for longest, beyond what is kept."""
        files = [(each.stat(), each) for each in self._folder.iterdir()]
        total = 0
        for stat, file in sorted(files, key=lambda each: -each[0].st_mtime):
            total += stat.st_size
            if total > self._most_bytes:
                file.unlink(missing_ok=True)


def _copied(source: Path, target: Path) -> str:
    """Copy a file; the SHA-256 of what was copied."""
    summed = hashlib.sha256()
    with source.open("rb") as file, target.open("wb") as copy:
        while chunk := file.read(_CHUNK):
            summed.update(chunk)
            copy.write(chunk)
    return summed.hexdigest()
