"""Brings the files of a snapshot into storage, those that are new, while its slot goes on."""

from __future__ import annotations

import hashlib
import logging
import shutil
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sparkdrain.checkpoints.manifest import FileEntry
from sparkdrain.checkpoints.paths import Stamp, file_name
from sparkdrain.checkpoints.storage import file_chunks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from sparkdrain.checkpoints.paths import Paths
    from sparkdrain.checkpoints.storage import Storage

_LOGGER = logging.getLogger(__name__)
STALL_SECONDS: Final = 120.0
"""How long the storage may not move at all, before an upload counts as failed."""


@dataclass(frozen=True, slots=True)
class Uploaded:
    """How an upload has ended.

    Attributes:
        number: of the checkpoint.
        files: all of the slot's state in storage; empty if the upload failed.
        uploaded_bytes: what was not there before.
        seconds: that it took.
        error: why it failed; empty if it did not.
    """

    number: int
    files: tuple[FileEntry, ...] = ()
    uploaded_bytes: int = 0
    seconds: float = 0.0
    error: str = ""


class _Stopped(Exception):
    """Nobody wants this upload any more."""


@dataclass(slots=True, eq=False)
class _Upload:
    """An upload on its way. ``moved`` is when it was last seen at work."""

    number: int
    snapshot: Path
    began: float
    moved: float
    stopped: bool = False


class Uploader:
    """Uploads the snapshots of one slot of one level, one after the other, in a thread.

    Files are told apart by content. One that the upload before has brought, or the checkpoint from
    which the slot was restored, is not brought again. So a checkpoint costs what has changed.

    Tables are known again by being the same file on disk, without reading them: the snapshot that
    was uploaded last is kept until the next one is there, so no other file can take that identity.

    Args:
        storage: where to.
        paths: of the job.
        epoch: of the driver for which the slot works.
        level: of the slot.
        slot: which one it is.
        files: what the checkpoint holds from which the slot was restored.
        stall_seconds: how long the storage may not move.
        clock: seconds.
    """

    def __init__(
        self,
        storage: Storage,
        paths: Paths,
        epoch: int,
        level: int,
        slot: int,
        files: Iterable[FileEntry] = (),
        *,
        stall_seconds: float = STALL_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._storage = storage
        self._paths = paths
        self._epoch = epoch
        self._level = level
        self._slot = slot
        self._stall_seconds = stall_seconds
        self._clock = clock
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._waiting: _Upload | None = None
        self._running: _Upload | None = None
        self._current: _Upload | None = None
        self._ended: Uploaded | None = None
        # Touched by the thread only, after it began.
        self._there = {file.digest: file for file in files if file.path}
        self._digests: dict[tuple[int, int], str] = {}
        self._kept: Path | None = None

    def begin(self, number: int, snapshot: Path) -> None:
        """Upload a snapshot, which is the uploader's from now on, as checkpoint ``number``.

        Does nothing if that is the last one that was begun. An upload that is still on its way is
        given up: ``poll`` will never tell its end.
        """
        with self._lock:
            if self._current is not None and self._current.number == number:
                if self._current.snapshot != snapshot:
                    shutil.rmtree(snapshot, ignore_errors=True)
                return
            now = self._clock()
            self._stop()
            self._ended = None
            self._current = self._waiting = _Upload(number, snapshot, now, now)
            if self._thread is None:
                name = f"upload-{self._level}-{self._slot}"
                self._thread = threading.Thread(target=self._work, name=name, daemon=True)
                self._thread.start()

    def poll(self) -> Uploaded | None:
        """How the upload that was begun last has ended, again and again; None if it has not.

        Never blocks.
        """
        with self._lock:
            current = self._current
            if self._ended is None and current is not None and not current.stopped:
                still = self._clock() - current.moved
                if still > self._stall_seconds:
                    current.stopped = True
                    message = f"the storage {self._paths.root} has not moved for {still:.0f} s"
                    self._ended = Uploaded(current.number, error=message)
            return self._ended

    def close(self) -> None:
        """Give up what is on its way, and remove what was kept. Does not wait."""
        with self._lock:
            self._stop()
            self._current = None
            kept = self._kept if self._thread is None else None
        if kept is not None:
            shutil.rmtree(kept, ignore_errors=True)

    # --- with the lock ------------------------------------------------------------------------

    def _stop(self) -> None:
        if self._running is not None:
            self._running.stopped = True
        if self._waiting is not None:
            shutil.rmtree(self._waiting.snapshot, ignore_errors=True)
            self._waiting = None

    def _next(self) -> _Upload | None:
        with self._lock:
            self._running, self._waiting = self._waiting, None
            if self._running is None:
                self._thread = None
                if self._current is None and self._kept is not None:
                    shutil.rmtree(self._kept, ignore_errors=True)
            else:
                self._running.moved = self._clock()
            return self._running

    # --- in the thread ------------------------------------------------------------------------

    def _work(self) -> None:
        while (upload := self._next()) is not None:
            try:
                ended = self._upload(upload)
            except Exception as error:
                if not isinstance(error, _Stopped):
                    _LOGGER.info("upload %d failed", upload.number, exc_info=True)
                shutil.rmtree(upload.snapshot, ignore_errors=True)
                ended = Uploaded(upload.number, error=str(error) or type(error).__name__)
            with self._lock:
                if upload is self._current and not upload.stopped:
                    self._ended = ended

    def _upload(self, upload: _Upload) -> Uploaded:
        began = self._clock()
        there: dict[str, FileEntry] = {}
        digests: dict[tuple[int, int], str] = {}
        entries = []
        uploaded_bytes = 0
        for path in sorted(path for path in upload.snapshot.rglob("*") if path.is_file()):
            entry, sent = self._bring(upload, path, digests)
            entries.append(entry)
            uploaded_bytes += sent
            if entry.path:
                there[entry.digest] = self._there[entry.digest] = entry
        before, self._kept = self._kept, upload.snapshot
        self._there, self._digests = there, digests
        if before is not None:
            shutil.rmtree(before, ignore_errors=True)
        seconds = self._clock() - began
        return Uploaded(upload.number, tuple(entries), uploaded_bytes, seconds)

    def _bring(
        self, upload: _Upload, path: Path, digests: dict[tuple[int, int], str]
    ) -> tuple[FileEntry, int]:
        """Makes sure that a file is in storage; says what it is, and how much was sent."""
        stat = path.stat()
        name = path.relative_to(upload.snapshot).as_posix()
        identity = (stat.st_dev, stat.st_ino)
        digest = self._digests.get(identity) if path.suffix == ".sst" else None
        if digest is None:
            summed = hashlib.sha256()
            for chunk in self._moving(upload, file_chunks(path)):
                summed.update(chunk)
            digest = summed.hexdigest()
        digests[identity] = digest
        size = stat.st_size
        if not size:
            return FileEntry(name, 0, digest, ""), 0
        known = self._there.get(digest)
        if known is not None:
            return FileEntry(name, size, digest, known.path), 0
        stamp = Stamp(self._epoch, upload.number)
        stored = file_name(stamp, self._level, self._slot, digest)
        chunks = self._moving(upload, file_chunks(path))
        self._storage.write(self._paths.file(stored), chunks)
        return FileEntry(name, size, digest, stored), size

    def _moving(self, upload: _Upload, chunks: Iterator[bytes]) -> Iterator[bytes]:
        for chunk in chunks:
            upload.moved = self._clock()
            if upload.stopped:
                raise _Stopped
            yield chunk
        upload.moved = self._clock()
