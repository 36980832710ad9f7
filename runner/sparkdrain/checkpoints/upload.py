"""Uploads the snapshots of a slot while the slot goes on."""

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
from sparkdrain.checkpoints.reasons import tried_again
from sparkdrain.checkpoints.storage import CHUNK, LocalFile
from sparkdrain.errors import CheckpointFailed
from sparkdrain.local_state.files import FileContent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from sparkdrain.checkpoints.paths import Paths
    from sparkdrain.checkpoints.storage import Storage
    from sparkdrain.local_state.slot_files import SlotFiles

_LOGGER = logging.getLogger(__name__)
STALL_SECONDS: Final = 120.0
"""How long the storage may not move at all, before an upload counts as failed."""


@dataclass(frozen=True, slots=True)
class Destination:
    """The place in storage for the state of one slot of one level."""

    storage: Storage
    paths: Paths
    epoch: int
    level: int
    slot: int

    def file_name(self, number: int, digest: str) -> str:
        """What a file with this digest is called if it comes for checkpoint ``number``."""
        return file_name(Stamp(self.epoch, number), self.level, self.slot, digest)


@dataclass(frozen=True, slots=True)
class Uploaded:
    """How an upload has ended.

    Attributes:
        files: all of the slot's state in storage; empty if the upload failed.
        uploaded_bytes: what was not there before.
        seconds: that it took.
        error: why it failed; empty if it did not.
        told: what the user should know, whether it failed or not; empty if there is nothing.
    """

    number: int
    files: tuple[FileEntry, ...] = ()
    uploaded_bytes: int = 0
    seconds: float = 0.0
    error: str = ""
    told: str = ""


class _Stopped(Exception):
    """The upload was given up."""


@dataclass(slots=True, eq=False)
class _Upload:
    """An upload on its way. ``moved`` is when it was last seen at work."""

    number: int
    snapshot: Path
    moved: float
    stopped: bool = False


class Uploader:
    """Uploads the snapshots of one slot of one level, one after the other, in a thread.

    Costs what has changed since the upload before, see ``Bringer``. One chunk of a file is in
    memory at a time. The thread lives as long as there is something to do.

    Args:
        to: where they go.
        files: what the checkpoint holds from which the slot was restored.
        keeper: keeps what was uploaded on this host as well, if anything does.
        stall_seconds: how long the storage may not move.
    """

    def __init__(
        self,
        to: Destination,
        files: Iterable[FileEntry] = (),
        keeper: SlotFiles | None = None,
        *,
        stall_seconds: float = STALL_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._to = to
        self._stall_seconds = stall_seconds
        self._clock = clock
        self._bringer = Bringer(to, files)
        self._keeper = keeper
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._thread: threading.Thread | None = None
        self._waiting: _Upload | None = None
        self._running: _Upload | None = None
        self._current: _Upload | None = None
        self._ended: Uploaded | None = None
        self._closed = False

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
            self._stop()
            self._ended = None
            self._current = self._waiting = _Upload(number, snapshot, self._clock())
            if self._thread is None:
                name = f"upload-{self._to.level}-{self._to.slot}"
                self._thread = threading.Thread(target=self._work, name=name, daemon=True)
                self._thread.start()

    def fail(self, number: int, error: str) -> None:
        """Have ``poll`` tell that checkpoint ``number`` has failed for want of a snapshot."""
        with self._lock:
            self._stop()
            self._current = None
            self._ended = Uploaded(number, error=error)

    def poll(self) -> Uploaded | None:
        """How the upload that was begun last has ended, again and again; None if it has not.

        Never blocks.
        """
        with self._lock:
            current = self._current
            if self._ended is None and current is not None:
                still = self._clock() - current.moved
                if still > self._stall_seconds:
                    current.stopped = True
                    message = (
                        f"the storage {self._to.paths.root} has not moved for {still:.0f} s"
                        f"{tried_again(self._thread)}"
                    )
                    self._ended = Uploaded(current.number, error=message)
            return self._ended

    def await_end(self, seconds: float) -> None:
        """Wait until what was begun last has ended, but no longer than that."""
        with self._changed:
            self._changed.wait_for(lambda: self._ended or self._current is None, seconds)

    def published(self, number: int) -> None:
        """Checkpoint ``number`` is the newest one now."""
        if self._keeper is not None:
            self._keeper.published(number)

    def close(self) -> None:
        """Give up what is on its way, and remove what was kept. Does not wait."""
        with self._lock:
            self._stop()
            self._current = self._ended = None
            self._closed = True
            if self._thread is None:
                self._end()

    def _end(self) -> None:
        self._bringer.drop()
        if self._keeper is not None:
            self._keeper.close()

    def _stop(self) -> None:
        if self._running is not None:
            self._running.stopped = True
        if self._waiting is not None:
            shutil.rmtree(self._waiting.snapshot, ignore_errors=True)
            self._waiting = None

    # --- in the thread ------------------------------------------------------------------------

    def _work(self) -> None:
        while (upload := self._next()) is not None:
            ended = self._upload(upload)
            with self._lock:
                if upload is self._current and not upload.stopped:
                    self._ended = ended
                    self._changed.notify_all()

    def _next(self) -> _Upload | None:
        with self._lock:
            upload, self._waiting = self._waiting, None
            self._running = upload
            if upload is not None:
                upload.moved = self._clock()
                return upload
            self._thread = None
            if self._closed:
                self._end()
            return None

    def _upload(self, upload: _Upload) -> Uploaded:
        def moved() -> None:
            upload.moved = self._clock()
            if upload.stopped:
                raise _Stopped

        began = self._clock()
        try:
            files, brought = self._bringer.bring(upload.number, upload.snapshot, moved)
            told = self._keep(upload, files, moved)
        except Exception as error:
            if not isinstance(error, _Stopped):
                _LOGGER.info("the upload of checkpoint %d failed", upload.number, exc_info=True)
            return Uploaded(upload.number, error=str(error) or type(error).__name__)
        return Uploaded(upload.number, files, brought, self._clock() - began, told=told)

    def _keep(self, upload: _Upload, files: Iterable[FileEntry], moved: Callable[[], None]) -> str:
        """Keeps a snapshot that is in storage now; what the user should know."""
        if self._keeper is None:
            return ""
        kept = {
            FileContent(file.digest, file.size): upload.snapshot / file.name
            for file in files
            if file.path
        }
        self._keeper.keep(upload.number, kept, moved)
        return self._keeper.wrong


class Bringer:
    """Brings the snapshots of one slot of one level, one after the other.

    Files are told apart by content. One that was brought for the snapshot before, or for the
    checkpoint from which the slot was restored, is not brought again.

    Tables are known again by being the same file on disk, without reading them: the snapshot that
    was brought last is kept until the next one is there, so no other file can take that identity.
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
