"""A temporary folder of this process: for its user only, removed with the process or after it.

The process holds a lock on a file in the folder. A folder whose lock is free belonged to a process
that was killed. The next process of the same user removes such a folder.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import os
import shutil
import stat
import tempfile
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_PREFIX: Final = "sparkdrain-own-"
_LOCK: Final = "lock"
_OTHERS: Final = 0o077
_WRITABLE: Final = stat.S_IWGRP | stat.S_IWOTH

LONGEST: Final = 61
"""Characters that Spark allows in a folder for sockets: the kernel takes short addresses only."""


@dataclass(frozen=True, slots=True)
class OwnFolder:
    """A folder, and the lock that says that its process lives.

    Attributes:
        path: of the folder, mode 0700.
        owner: id of the process that made the folder.
        lock: descriptor of the locked file; children that are forked share the lock.
    """

    path: str
    owner: int
    lock: int

    @staticmethod
    def make(places: Sequence[str] | None = None) -> OwnFolder:
        """Make a folder; also sweep the ``places``.

        Args:
            places: folders to make it in; the first that is safe and short enough is taken. The
                folder for temporary files, ``/tmp`` and ``/dev/shm`` if not given.

        Raises:
            OSError: no place is safe, short and writable; says what was tried.
        """
        tried = list(dict.fromkeys(_places() if places is None else places))
        for place in tried:
            with contextlib.suppress(OSError):
                if not (_is_safe(place) and _has_short_names(place)):
                    continue
                sweep(place)
                return _made(place)
        message = (
            f"no private folder can be made in {', '.join(tried)}: a folder is wanted that this "
            f"user can write, in which other users cannot rename files, and whose path has at most "
            f"{LONGEST - len(_PREFIX) - _RANDOM - 1} characters. Name one with TMPDIR"
        )
        raise OSError(message)

    def remove(self) -> None:
        """Remove the folder and give the lock back; does nothing in a forked child."""
        if os.getpid() == self.owner:
            shutil.rmtree(self.path, ignore_errors=True)
            with contextlib.suppress(OSError):
                os.close(self.lock)


class _OfThisProcess:
    folder: OwnFolder | None = None


def own_folder() -> str:
    """The path of this process's folder, which is made at the first call and goes with the process.

    Raises:
        OSError: see ``OwnFolder.make``.
    """
    folder = _OfThisProcess.folder
    if folder is None or folder.owner != os.getpid() or not is_private(folder.path):
        folder = _OfThisProcess.folder = OwnFolder.make()
        atexit.register(folder.remove)
    return folder.path


def is_private(folder: str) -> bool:
    """Whether ``folder`` is a folder of this user that no other user may enter."""
    try:
        found = os.lstat(folder)
    except OSError:
        return False
    mine = stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()
    return mine and not found.st_mode & _OTHERS


def sweep(place: str) -> None:
    """Remove the folders in ``place`` whose processes ended without removing them."""
    with contextlib.suppress(OSError):
        for name in os.listdir(place):
            path = os.path.join(place, name)
            if name.startswith(_PREFIX) and is_private(path):
                with contextlib.suppress(OSError):
                    _remove_if_dead(path)


def _remove_if_dead(path: str) -> None:
    try:
        lock = os.open(os.path.join(path, _LOCK), os.O_RDWR | os.O_NOFOLLOW)
    except FileNotFoundError:
        os.rmdir(path)  # its process was killed before it made the lock, or makes another folder
        return
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(path, ignore_errors=True)
    finally:
        os.close(lock)


_RANDOM: Final = 8  # characters that mkdtemp adds


def _places() -> Iterator[str]:
    yield tempfile.gettempdir()
    yield "/tmp"  # noqa: S108 - a private folder is made in it
    yield "/dev/shm"  # noqa: S108 - likewise


def _has_short_names(place: str) -> bool:
    return len(os.path.join(place, _PREFIX)) + _RANDOM <= LONGEST


def _is_safe(place: str) -> bool:
    """Whether other users cannot rename or replace what this user makes in ``place``."""
    found = os.stat(place)
    open_to_others = found.st_mode & _WRITABLE and not found.st_mode & stat.S_ISVTX
    return found.st_uid in {0, os.geteuid()} and not open_to_others


def _made(place: str) -> OwnFolder:
    while True:
        path = tempfile.mkdtemp(prefix=_PREFIX, dir=place)
        with contextlib.suppress(FileNotFoundError):  # another process has swept it meanwhile
            file = os.path.join(path, _LOCK)
            lock = os.open(file, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
            fcntl.flock(lock, fcntl.LOCK_EX)
            if os.path.exists(file):
                return OwnFolder(path, os.getpid(), lock)
            os.close(lock)
