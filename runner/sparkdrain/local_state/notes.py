"""Notes of which slot needs which files, and whether the slot's process lives.

A note is a file with JSON and a file that the slot's process has locked. The system takes the lock
back when the process ends, however it does.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from sparkdrain import file_lock
from sparkdrain.local_state.files import FileContent

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_NOTE: Final = ".json"
_LOCK: Final = ".lock"
_PART: Final = ".part"
_LOCK_SECONDS: Final = 15.0
"""How long a slot waits for its note, which other processes lock for milliseconds."""


@dataclass(frozen=True, slots=True)
class SlotNote:
    """What one slot of one level of a job needs.

    Attributes:
        home: where its checkpoints are; with this, jobs of one name are told apart.
        needs: by number of a checkpoint, the files that it names.
    """

    job: str
    home: str
    level: int
    slot: int
    needs: Mapping[int, frozenset[FileContent]] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """What its files are called: the same for each process that has the slot."""
        digest = hashlib.sha256(self.home.encode()).hexdigest()[:16]
        return f"{digest}-{self.level:03d}-{self.slot:04d}"

    @property
    def contents(self) -> frozenset[FileContent]:
        """All files that it needs."""
        return frozenset[FileContent]().union(*self.needs.values())

    def encode(self) -> bytes:
        """The note as it is kept: as JSON, whose schema is ``SlotNote`` of ``proto/``."""
        needs = {
            str(number): sorted([file.digest, file.size] for file in files)
            for number, files in self.needs.items()
        }
        kept = {"job": self.job, "home": self.home, "level": self.level, "slot": self.slot}
        return json.dumps({**kept, "needs": needs}).encode()

    @staticmethod
    def decode(data: bytes) -> SlotNote | None:
        """The inverse; None if the bytes are no note. Fields of later releases are ignored."""
        try:
            found = json.loads(data)
            needs = {
                int(number): frozenset(
                    FileContent(str(digest), int(size)) for digest, size in files
                )
                for number, files in found["needs"].items()
            }
            where = int(found["level"]), int(found["slot"])
            return SlotNote(str(found["job"]), str(found["home"]), *where, needs)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return None


class HeldNote:
    """The note of a slot whose process lives, in a folder of notes.

    Args:
        lock_seconds: how long to wait for a process that looks at the note, or removes it.

    Raises:
        LockKept: that process has not let go of the note in time.
        OSError: the disk refuses.
    """

    def __init__(self, folder: Path, name: str, lock_seconds: float = _LOCK_SECONDS) -> None:
        self._folder = folder
        self._name = name
        # Shared: a host that is about to end may have it, too.
        self._lock = file_lock.open_locked(folder / (name + _LOCK), lock_seconds, shared=True)

    def write(self, note: SlotNote) -> None:
        """Replace the note in one step.

        Raises:
            OSError: the disk refuses; the note is as it was.
        """
        part = self._folder / f"{self._name}.{secrets.token_hex(4)}{_PART}"
        try:
            part.write_bytes(note.encode())
            os.replace(part, self._folder / (self._name + _NOTE))
        finally:
            part.unlink(missing_ok=True)

    def close(self) -> None:
        """The slot's process does not need the files any more. The note stays."""
        with suppress(OSError):
            os.utime(self._folder / (self._name + _NOTE))
        os.close(self._lock)


@dataclass(frozen=True, slots=True)
class FoundNote:
    """A note as others see it.

    Attributes:
        name: see ``SlotNote.name``.
        note: what it says; None if it cannot be read.
        is_held: whether a process that has the slot lives.
        seen: when it was last known to be held, seconds since 1970.
    """

    name: str
    note: SlotNote | None
    is_held: bool
    seen: float


def found_notes(folder: Path) -> list[FoundNote]:
    """All notes in a folder, in the order of their names.

    Raises:
        OSError: the folder cannot be read.
    """
    found = []
    for path in sorted(folder.iterdir()):
        if path.suffix == _NOTE:
            is_held = _is_held(path.with_suffix(_LOCK))
            with suppress(FileNotFoundError):
                note = SlotNote.decode(path.read_bytes())
                found.append(FoundNote(path.stem, note, is_held, path.stat().st_mtime))
    return found


def _is_held(lock: Path) -> bool:
    try:
        with file_lock.locked_now(lock, make=False):
            return False
    except BlockingIOError:
        return True
    except FileNotFoundError:
        return False


def still_held(folder: Path, name: str, now: float) -> None:
    """Remember that a note is held at this time, in seconds since 1970."""
    with suppress(OSError):
        os.utime(folder / (name + _NOTE), (now, now))


def forget(folder: Path, name: str) -> bool:
    """Remove a note, unless a process has come that holds it; whether it is gone."""
    lock = folder / (name + _LOCK)
    try:
        with file_lock.locked_now(lock):
            (folder / (name + _NOTE)).unlink(missing_ok=True)
            lock.unlink(missing_ok=True)
    except OSError:
        return False
    return True
