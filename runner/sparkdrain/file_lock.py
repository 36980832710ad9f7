"""Locks files (``flock``): waits for a limited time, and names the process that has the lock.

A lock ends with the process that has it. A process that is stopped keeps it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

_SHORTEST_PAUSE, _LONGEST_PAUSE = 0.001, 0.05
_LOCKS_OF_THIS_MACHINE: Final = Path("/proc/locks")


class LockKept(TimeoutError):
    """Another process kept a lock for as long as this one waited; the message names the other."""


def lock(descriptor: int, path: Path, seconds: float, *, shared: bool = False) -> None:
    """Lock an open file, and wait for the lock if another process has it.

    Args:
        path: where the file is, for the message.
        seconds: how long to wait, longer than any process needs the lock.
        shared: whether the lock is shared with others that ask for a shared lock.

    Raises:
        LockKept: another process kept the lock all that time.
        OSError: the file system has no locks.
    """
    how = (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB
    end, pause = time.monotonic() + seconds, _SHORTEST_PAUSE
    while True:
        try:
            fcntl.flock(descriptor, how)
        except BlockingIOError:
            if time.monotonic() >= end:
                message = (
                    f"{path} has been locked for {seconds:g} s by {_holder(descriptor)}. No "
                    "process needs it for that long: that process is stopped, hangs, or is none "
                    "of sparkdrain's. End it, or let it go on."
                )
                raise LockKept(message) from None
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)
        else:
            return


def open_locked(path: Path, seconds: float, *, shared: bool = False, make: bool = True) -> int:
    """Open a file and lock it. The process that has the lock may remove the file.

    Args:
        seconds, shared: see ``lock``.
        make: whether to make the file if it is not there.

    Returns:
        The descriptor. The lock ends when it is closed.

    Raises:
        LockKept: see ``lock``.
        FileNotFoundError: there is no such file, and it is not to be made.
        OSError: it cannot be opened or locked.
    """
    while True:
        descriptor = os.open(path, os.O_RDWR | (os.O_CREAT if make else 0), 0o600)
        try:
            lock(descriptor, path, seconds, shared=shared)
            with contextlib.suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(descriptor), path.stat()):
                    return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)  # the file was removed meanwhile


@contextlib.contextmanager
def locked_now(path: Path, *, make: bool = True) -> Iterator[None]:
    """Have the lock of a file to itself meanwhile, without waiting for it.

    Args:
        make: whether to make the file if it is not there.

    Raises:
        BlockingIOError: another process has the lock.
        OSError: the file cannot be opened or locked.
    """
    descriptor = os.open(path, os.O_RDWR | (os.O_CREAT if make else 0), 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)


def _holder(descriptor: int) -> str:
    """Who has locked a file, as far as this machine knows."""
    about = os.fstat(descriptor)
    device = f"{os.major(about.st_dev):02x}:{os.minor(about.st_dev):02x}:{about.st_ino}"
    with contextlib.suppress(OSError):
        for line in _LOCKS_OF_THIS_MACHINE.read_text(encoding="ascii").splitlines():
            fields = line.split()
            if len(fields) > 5 and fields[1] == "FLOCK" and fields[5] == device:
                return f"process {fields[4]}{_command(fields[4])} of this machine"
    return "a process of another machine or container"


def _command(process: str) -> str:
    try:
        words = Path("/proc", process, "cmdline").read_bytes().split(b"\0")
    except OSError:
        return ""
    # Not the arguments: they may hold secrets.
    return f" ({words[0].decode(errors='replace')})"
