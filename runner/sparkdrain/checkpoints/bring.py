"""Brings the files of a snapshot into storage, those that are not there yet."""

from __future__ import annotations

import hashlib
import shutil
from typing import TYPE_CHECKING

from sparkdrain.checkpoints.manifest import FileEntry
from sparkdrain.checkpoints.storage import CHUNK, LocalFile
from sparkdrain.errors import CheckpointFailed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from sparkdrain.checkpoints.destination import Destination


class Bringer:
    """Brings the snapshots of one slot of one level, one after the other.

    Files are told apart by content. One that was brought for the snapshot before, or for the
    checkpoint from which the slot was restored, is not brought again.

    Tables are known again by being the same file on disk, without reading them: the snapshot that
    was brought last is kept until the next one is there, so no other file can take that identity.

    Args:
        to: where they go.
        files: what the checkpoint holds from which the slot was restored.
    """

    def __init__(self, to: Destination, files: Iterable[FileEntry] = ()) -> None:
        self._to = to
        # What is in storage, by digest. It holds what came for the last checkpoint that this slot
        # has brought, and for later ones that failed: ``garbage_files`` relies on that.
        self._there = {file.digest: file for file in files if file.path}
        self._digests: dict[tuple[int, int], str] = {}
        self._kept: Path | None = None

    def bring(
        self, number: int, snapshot: Path, moved: Callable[[], None]
    ) -> tuple[tuple[FileEntry, ...], int]:
        """Bring a snapshot, which is ours from now on, as checkpoint ``number``.

        Args:
            moved: called all the time; what it raises ends this.

        Returns:
            All files, and how many bytes of them were not there before.

        Raises:
            CheckpointFailed: the storage refuses.
            OSError: the snapshot cannot be read. In any case, it is removed.
        """
        there: dict[str, FileEntry] = {}
        digests: dict[tuple[int, int], str] = {}
        entries = []
        brought = 0
        try:
            for path in sorted(path for path in snapshot.rglob("*") if path.is_file()):
                name = path.relative_to(snapshot).as_posix()
                stat = path.stat()
                identity = (stat.st_dev, stat.st_ino)
                known = self._digests.get(identity) if path.suffix == ".sst" else None
                digest = digests[identity] = known or _digest(path, moved)
                entry, new = self._entry(number, path, name, digest, moved)
                entries.append(entry)
                brought += stat.st_size if new else 0
                if entry.path:
                    there[digest] = self._there[digest] = entry
            if not entries:
                message = f"the snapshot {snapshot} is gone"
                raise CheckpointFailed(message)
        except BaseException:
            shutil.rmtree(snapshot, ignore_errors=True)
            raise
        self.drop()
        self._there, self._digests, self._kept = there, digests, snapshot
        return tuple(entries), brought

    def drop(self) -> None:
        """Remove the snapshot that is kept."""
        if self._kept is not None:
            shutil.rmtree(self._kept, ignore_errors=True)
        self._kept, self._digests = None, {}

    def _entry(
        self, number: int, path: Path, name: str, digest: str, moved: Callable[[], None]
    ) -> tuple[FileEntry, bool]:
        """Makes sure that a file is in storage; says what it is, and whether it is new."""
        size = path.stat().st_size
        if not size:
            return FileEntry(name, 0, digest, ""), False
        known = self._there.get(digest)
        if known is not None:
            return FileEntry(name, size, digest, known.path), False
        stored = self._to.file_name(number, digest)
        # The store never changes a file of a snapshot; a slot only removes them.
        self._to.storage.write(self._to.paths.file(stored), LocalFile(path, moved))
        return FileEntry(name, size, digest, stored), True


def _digest(path: Path, moved: Callable[[], None]) -> str:
    summed = hashlib.sha256()
    # One buffer for all of it: memory that is new costs more than reading into it.
    buffer = memoryview(bytearray(min(CHUNK, max(1, path.stat().st_size))))
    with path.open("rb", buffering=0) as file:
        while size := file.readinto(buffer):
            summed.update(buffer[:size])
            moved()
    return summed.hexdigest()
