"""Uploads the snapshots of a slot while the slot goes on."""

from __future__ import annotations

import logging
import shutil
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sparkdrain.checkpoints.bring import Bringer
from sparkdrain.checkpoints.reasons import tried_again
from sparkdrain.local_state.files import FileContent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from sparkdrain.checkpoints.destination import Destination
    from sparkdrain.checkpoints.manifest import FileEntry
    from sparkdrain.local_state.slot_files import SlotFiles

_LOGGER = logging.getLogger(__name__)
STALL_SECONDS: Final = 120.0
"""How long the storage may not move at all, before an upload counts as failed."""


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
