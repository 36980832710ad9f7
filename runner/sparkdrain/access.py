"""Who may use the folders in which state outlives a process: this user, or one group as well.

A folder is shared with its group if the group may write it and the set-group-ID bit is set. What
is made in a folder is for the same users as the folder, whatever the umask is.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

# What file systems say whose folders need no sync, or have none, and those that only read.
_NO_SYNC: Final = frozenset({errno.EINVAL, errno.EROFS, errno.ENOTSUP, errno.ENOSYS})
_OWN_FOLDER: Final = 0o700
_OWN_FILE: Final = 0o600
_SHARED_FOLDER: Final = 0o2770
_SHARED_FILE: Final = 0o660


def prepare(folder: Path, *, group: bool) -> None:
    """Make a folder, and those that it is in, unless they are there; they survive a loss of power.

    Args:
        group: whether its group may use the folder and all that is in it; else this user only. A
            folder that is there is opened to the group if this user owns it, and never closed.

    Raises:
        OSError: it cannot be made.
    """
    for missing in reversed([each for each in (folder, *folder.parents) if not each.exists()]):
        with suppress(FileExistsError):
            missing.mkdir(_OWN_FOLDER)
            missing.chmod(_SHARED_FOLDER if group else _OWN_FOLDER)
    if group and not is_shared(folder):
        _share(folder)
    settle(folder)


def settle(folder: Path) -> None:
    """Make what is named in a folder, and the folder itself, survive a loss of power.

    Also if another process has made it and died before its name was on disk.

    Raises:
        OSError: the disk does not do it.
    """
    for each in (folder, *folder.parents):
        try:
            sync_folder(each)
        except PermissionError:
            return  # those above are older than this user's part of the disk
        except OSError as error:
            if error.errno not in _NO_SYNC:
                raise
        if each.is_mount():
            return


def sync_folder(folder: Path) -> None:
    """Make the names in a folder survive a loss of power; those of its files, not their bytes.

    Raises:
        OSError: the disk does not do it.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_folder(folder: Path) -> None:
    """Make a folder, unless it is there, for those who may use the folder that it is in.

    Raises:
        OSError: it cannot be made.
    """
    with suppress(FileExistsError):
        folder.mkdir(_OWN_FOLDER)
        folder.chmod(_SHARED_FOLDER if is_shared(folder.parent) else _OWN_FOLDER)


def opener(path: str, flags: int) -> int:
    """Opens a file for those who may use its folder; an ``opener`` for ``open``.

    Raises:
        OSError: the file cannot be opened.
    """
    descriptor = os.open(path, flags, _OWN_FILE)
    mode = mode_of_files(Path(path).parent)
    found = os.fstat(descriptor)
    if stat.S_IMODE(found.st_mode) != mode and found.st_uid == os.geteuid():
        os.fchmod(descriptor, mode)
    return descriptor


def mode_of_files(folder: Path) -> int:
    """The permissions of files in ``folder``."""
    return _SHARED_FILE if is_shared(folder) else _OWN_FILE


def is_shared(folder: Path) -> bool:
    """Whether what is made in ``folder`` is for its group as well."""
    mode = folder.stat().st_mode
    return bool(mode & stat.S_ISGID and mode & stat.S_IWGRP)


UNPICKLED: Final = (
    "so they can run code as this user, since parts of checkpoints are unpickled when a job is "
    "resumed"
)
"""What others can do who may change checkpoints."""

HEEDED: Final = "so they can drain the job, or hide it from those who look for it"
"""What others can do who may change a metadata store."""


def complaints(folder: Path, *, group: bool = False, harm: str = UNPICKLED) -> Iterator[str]:
    """What is wrong with who may change a folder and the folders in it, some sentences each.

    Args:
        folder: the folder; need not be there.
        group: whether its group may.
        harm: what others can do who may.
    """
    # A user who may write the folder above could put another in its place.
    for above in folder.parents:
        mode = above.stat().st_mode if above.exists() else 0
        if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
            yield _writable(above, mode, harm)
    folders = [folder]
    if not _is_sticky(folder):  # else others may have folders of their own there
        with suppress(OSError):
            folders += [each for each in folder.iterdir() if each.is_dir()]
    for each in folders:
        with suppress(FileNotFoundError):
            found = each.stat()
            if found.st_uid not in {0, os.geteuid()}:
                yield (
                    f"Another user can change what is in {each}, which belongs to the user "
                    f"{found.st_uid}, {harm}. Use a folder of your own."
                )
            elif others_may_write(found, group=group) and not _is_sticky(each):
                yield _writable(each, found.st_mode, harm)


def _writable(folder: Path, mode: int, harm: str) -> str:
    return (
        f"Other users may write {folder} (mode {stat.S_IMODE(mode):04o}), {harm}. Take the right "
        "away (chmod go-w), or use another folder."
    )


def _is_sticky(folder: Path) -> bool:
    with suppress(OSError):
        return bool(folder.stat().st_mode & stat.S_ISVTX)
    return False


def others_may_write(found: os.stat_result, *, group: bool = False) -> bool:
    """Whether other users may write what has this status.

    Args:
        found: what ``stat`` says of a file or folder.
        group: whether the members of its group do not count.
    """
    mode = found.st_mode
    by_group = mode & stat.S_IWGRP and not group and not _is_of_one_user(found.st_gid)
    return bool(mode & stat.S_IWOTH or by_group)


def _is_of_one_user(gid: int) -> bool:
    """Whether a group is that which many systems make for each user, with no other member."""
    import grp  # noqa: PLC0415 (POSIX only)
    import pwd  # noqa: PLC0415 (POSIX only)

    try:
        user, group = pwd.getpwuid(os.geteuid()), grp.getgrgid(gid)
    except KeyError:
        return False
    own = user.pw_gid == gid and group.gr_name == user.pw_name
    return own and not set(group.gr_mem) - {user.pw_name}


def _share(folder: Path) -> None:
    for place, _, files in os.walk(folder, topdown=False):
        for path, mode in [
            *((Path(place, file), _SHARED_FILE) for file in files),
            (Path(place), _SHARED_FOLDER),
        ]:
            # What others own they must share themselves; what was removed needs nothing.
            with suppress(PermissionError, FileNotFoundError):
                path.chmod(mode)
