"""What is asked of the system about processes, and how a forked one becomes its own master."""

from __future__ import annotations

import contextlib
import faulthandler
import os
import signal
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Container

# Python has them ignored, so that they show as errors of calls.
_IGNORED: Final = tuple(
    getattr(signal, name) for name in ("SIGPIPE", "SIGXFSZ") if hasattr(signal, name)
)


def parent_of(pid: int) -> int:
    """The parent of another process; 1 if it has none that could be watched."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return int(ps(pid, "ppid") or 1)
    # The name of the program, in parentheses, can have any content.
    return int(stat.rpartition(")")[2].split()[1])


def command_of(pid: int) -> list[str]:
    """What a process was started with; nothing if that cannot be found out."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_text(errors="replace").split("\0")
    except OSError:
        return ps(pid, "args").split()


def ps(pid: int, column: str) -> str:
    """What ``ps`` says of a process, where there is no ``/proc``; "" if it has ended."""
    command = ["ps", "-o", f"{column}=", "-p", str(pid)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - no shell
    return done.stdout.strip()


def is_alive(pid: int) -> bool:
    """Whether there is a process of this id."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def has_rocksdb_threads() -> bool:
    """Whether RocksDB has been in use here; what is forked from here could only wait for it.

    It keeps its background threads for ever, and never notices that a fork has none. Known on
    Linux only.
    """
    names = Path("/proc/self/task").glob("*/comm")
    with contextlib.suppress(OSError):
        return any(name.read_text().startswith("rocksdb:") for name in names)
    return False


def how_it_ended(status: int) -> str:
    """What ``os.waitpid`` says, in words."""
    code = os.waitstatus_to_exitcode(status)
    if code >= 0:
        return f"it exited with status {code}"
    if code == -signal.SIGKILL:
        return "it was killed by SIGKILL (as the system does when memory is short)"
    with contextlib.suppress(ValueError):
        return f"it was killed by {signal.Signals(-code).name}"
    return f"it was killed by signal {-code}"


def let_go(kept: Container[int]) -> None:
    """Give up, in a forked process, what belongs to the process it was forked from.

    Descriptors except stderr and ``kept`` become /dev/null rather than free: objects of that
    process are still there, and one that closes its descriptor must not hit one of ours.
    """
    faulthandler.disable()
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in map(int, os.listdir("/dev/fd")):
        if descriptor != 2 and descriptor not in kept:
            # One of those listed was for the listing itself.
            with contextlib.suppress(OSError):
                os.fstat(descriptor)
                os.dup2(null, descriptor, inheritable=descriptor == 0)
    # What user code prints goes where its complaints go.
    os.dup2(2, 1)
    reset_signals()


def reset_signals() -> None:
    """Make signals do what they do in a new Python process that no terminal talks to."""
    signal.set_wakeup_fd(-1)
    for number in signal.valid_signals():
        # A few cannot be set.
        with contextlib.suppress(OSError, ValueError):
            signal.signal(number, signal.SIG_IGN if number in _IGNORED else signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
