"""A temporary folder of this process: for its user only, removed with the process or after it.

The process holds a lock on a file in the folder. A folder whose lock is free belonged to a process
that was killed. The next process of the same user removes such a folder, and the folders elsewhere
that are listed in it.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import json
import os
import secrets
import shutil
import stat
import tempfile
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_PREFIX: Final = "sparkdrain-own-"
_RANDOM: Final = 8  # characters that mkdtemp adds
_LOCK: Final = "lock"
_ELSEWHERE: Final = "elsewhere"
_OTHERS: Final = 0o077
_WRITABLE: Final = stat.S_IWGRP | stat.S_IWOTH

LONGEST: Final = 61
"""Characters that Spark allows in a folder for sockets: the kernel takes short addresses only."""


@dataclass(frozen=True, slots=True)
class OwnFolder:
    """A folder, and the lock that says that its process lives.

    Attributes:
        path: where the folder is, mode 0700.
        owner: id of the process that made the folder.
        lock: descriptor of the locked file. Children that are forked, or that are given the
            descriptor, share the lock: the folder counts as used until the last of them has ended.
    """

    path: str
    owner: int
    lock: int

    @staticmethod
    def make(places: Sequence[str] | None = None, *, for_sockets: bool = True) -> OwnFolder:
        """Make a folder; also sweep the ``places``.

        Args:
            places: folders to make it in; the first that is safe and short enough is taken. The
                folder for temporary files, ``/tmp`` and ``/dev/shm`` if not given.
            for_sockets: whether the folder's name must be short enough for sockets in it.

        Raises:
            OSError: no place is safe, short and writable; says what was tried.
        """
        tried = list(dict.fromkeys(_places() if places is None else places))
        for place in tried:
            with contextlib.suppress(OSError):
                longest = len(os.path.join(place, _PREFIX)) + _RANDOM
                if not _is_safe(place) or (for_sockets and longest > LONGEST):
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
            remove_all(self.path)
            with contextlib.suppress(OSError):
                os.close(self.lock)

    def elsewhere(self) -> list[str]:
        """What ``make_elsewhere`` has made."""
        return _elsewhere(self.path)

    def make_elsewhere(self, place: str) -> str:
        """Make a folder in ``place`` that is removed with this one, and is for its user only.

        Raises:
            OSError: it cannot be made.
        """
        folder = os.path.join(os.path.abspath(place), f"sparkdrain-{secrets.token_hex(4)}")
        file = os.path.join(self.path, _ELSEWHERE)
        # Listed first: if this process is killed now, the next start finds only what is listed.
        with open(file + ".new", "w", encoding="utf-8") as new:
            json.dump([*_elsewhere(self.path), folder], new)
        os.replace(file + ".new", file)
        os.makedirs(place, exist_ok=True)
        os.mkdir(folder, mode=0o700)
        return folder


class _OfThisProcess:
    folder: OwnFolder | None = None
    room: OwnFolder | None = None


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


def own_room() -> str | None:
    """A folder of this process among the temporary files, for files of any size.

    The same as ``own_folder`` unless that is in another place, whose room is small. None if no safe
    folder can be made there.
    """
    place = tempfile.gettempdir()
    room = _OfThisProcess.room
    if room is not None and room.owner == os.getpid() and is_private(room.path):
        return room.path
    with contextlib.suppress(OSError):
        if os.path.dirname(folder := own_folder()) == place:
            return folder
    try:
        room = _OfThisProcess.room = OwnFolder.make([place], for_sockets=False)
    except OSError:
        return None
    atexit.register(room.remove)
    return room.path


def is_private(folder: str) -> bool:
    """Whether ``folder`` is a folder of this user that no other user may enter."""
    mode = _mode_if_mine(folder)
    return mode is not None and not mode & _OTHERS


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
        remove_all(path)
    finally:
        os.close(lock)


def remove_all(path: str) -> None:
    """Remove an own folder whose process has ended, or is about to; first what is elsewhere.

    The lock goes last: if this process is killed meanwhile, or another one still writes into the
    folder, the next sweep removes the rest.
    """
    for folder in _elsewhere(path):
        if _mode_if_mine(folder) is not None:
            shutil.rmtree(folder, ignore_errors=True)
    last = (_ELSEWHERE, _LOCK)
    with contextlib.suppress(OSError):
        for name in set(os.listdir(path)).difference(last):
            _remove(os.path.join(path, name))
        if set(os.listdir(path)) <= set(last):
            for name in last:
                _remove(os.path.join(path, name))
            os.rmdir(path)


def _remove(path: str) -> None:
    mode = _mode_if_mine(path)
    if mode is not None:
        shutil.rmtree(path, ignore_errors=True)
        return
    with contextlib.suppress(OSError):
        os.unlink(path)


def _elsewhere(path: str) -> list[str]:
    """The folders that are listed in an own folder, which only its user can write."""
    try:
        with open(os.path.join(path, _ELSEWHERE), encoding="utf-8") as file:
            listed = json.load(file)
    except (OSError, ValueError):
        return []
    return [str(folder) for folder in listed]


def _mode_if_mine(folder: str) -> int | None:
    """The mode of ``folder`` if it is a folder of this user, and no link to one."""
    try:
        found = os.lstat(folder)
    except OSError:
        return None
    mine = stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()
    return found.st_mode if mine else None


def _places() -> Iterator[str]:
    yield tempfile.gettempdir()
    yield "/tmp"  # noqa: S108 - a private folder is made in it
    yield "/dev/shm"  # noqa: S108 - likewise


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
            with contextlib.suppress(BlockingIOError):  # likewise
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if os.path.exists(file):
                    return OwnFolder(path, os.getpid(), lock)
            os.close(lock)
