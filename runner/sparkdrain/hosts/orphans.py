"""Orphans: processes whose parent has ended, such as daemons that user code starts.

On Linux a process can ask for the orphans among its descendants. Else the first process of the
machine or of the container gets them.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection

WARDEN: Final = "sparkdrain-ward"
"""What the system calls a warden; it takes 15 characters."""
HOST: Final = "sparkdrain-host"
SHARED: Final = "sparkdrain-sdks"
"""The guard of a process that slots share. It ends by itself, when no slot is left."""
JOB_VARIABLE: Final = "SPARKDRAIN_JOB"
"""Names the batch job, in the environment of what its user code starts."""

_SET_NAME: Final = 15
_SET_CHILD_SUBREAPER: Final = 36
_INIT: Final = 1
_END_SECONDS: Final = 5.0
_PAUSE_SECONDS: Final = 0.02
_REAP_SECONDS: Final = 1.0
_ZOMBIE: Final = "Z"
# Among what the system tells behind the name: where they are in memory.
_CODE, _ENVIRONMENT, _ENVIRONMENT_END = 23, 47, 48


class Child(NamedTuple):
    """A child of this process.

    Attributes:
        pid: its id.
        name: what its program is called.
        state: a letter, as the system has it.
    """

    pid: int
    name: str
    state: str
    session: int


def adopt_orphans() -> bool:
    """Become the parent of orphans among the descendants; False where the system has no such thing.

    Children that are forked later do not inherit this.
    """
    return _prctl(_SET_CHILD_SUBREAPER, 1)


def be_called(name: str) -> None:
    """Have the system show this process by another name than Python's, where it can."""
    _prctl(_SET_NAME, ctypes.c_char_p(name.encode()))


def _prctl(option: int, value: int | ctypes.c_char_p) -> bool:
    if sys.platform != "linux":
        return False
    prctl = getattr(ctypes.CDLL(None), "prctl", None)
    return prctl is not None and prctl(option, value, 0, 0, 0) == 0


def children() -> list[Child]:
    """The children of this process, adopted ones too; none where there is no ``/proc``."""
    own, found = os.getpid(), []
    for file in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            # The name of the program, in parentheses, can have any content.
            start, _, rest = file.read_text().rpartition(")")
            state, parent, _, session, *_ = rest.split()
            if int(parent) == own:
                name = start.partition("(")[2]
                found.append(Child(int(file.parent.name), name, state, int(session)))
    return found


def end_orphans(spared: Collection[str] = (), seconds: float = _END_SECONDS) -> None:
    """Kill all children, and their children, which are orphans then; for a process that is to end.

    Args:
        spared: children of these names are left alone.
        seconds: how long this may take at most.
    """
    deadline = time.monotonic() + seconds
    while found := [child for child in children() if child.name not in spared]:
        if time.monotonic() > deadline:
            return
        for child in found:
            with contextlib.suppress(OSError):
                os.kill(child.pid, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(child.pid, os.WNOHANG)
        time.sleep(_PAUSE_SECONDS)


def children_of(pid: int) -> list[int]:
    """The children of a process, adopted ones too; none where the system does not tell."""
    found: list[int] = []
    for file in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):  # the thread has ended
            found += map(int, file.read_text().split())
    return found


def is_of_job(pid: int, job: str) -> bool | None:
    """Whether user code of a batch job has started a process, and the process has called exec.

    None while it calls exec: it has no environment for a moment. Ask again.
    """
    with contextlib.suppress(OSError):
        if environ := Path(f"/proc/{pid}/environ").read_bytes():
            return f"{JOB_VARIABLE}={job}".encode() in environ.split(b"\0")
        return None if calls_exec(Path(f"/proc/{pid}/stat").read_text()) else False
    return False


def calls_exec(stat: str) -> bool:
    """Whether a process seems to have no environment, by its ``stat``, as it calls exec."""
    fields = stat.rpartition(")")[2].split()
    # What exec tells the system last is where the code begins.
    has_none = fields[_CODE] != "0" and fields[_ENVIRONMENT] == fields[_ENVIRONMENT_END]
    return not has_none and fields[0] != _ZOMBIE


def end_orphans_of_job(parent: int, job: str, seconds: float = _END_SECONDS) -> None:
    """Kill the children of a process that are of a batch job, and their children, which it adopts.

    Args:
        parent: adopts orphans, and collects them.
        job: its id.
        seconds: how long this may take at most.
    """
    deadline = time.monotonic() + seconds
    ending: set[int] = set()
    while time.monotonic() < deadline:
        known = {child: is_of_job(child, job) for child in children_of(parent)}
        found = {child for child, is_one in known.items() if is_one}
        for child in found:
            with contextlib.suppress(OSError):
                os.kill(child, signal.SIGKILL)
        # When one of them is gone, its own children have been adopted.
        ending = {child for child in ending | found if os.path.exists(f"/proc/{child}")}
        if not found and not ending and None not in known.values():
            return
        time.sleep(_PAUSE_SECONDS)


class _Started:
    thread: threading.Thread | None = None


def reap_as_init() -> None:
    """Collect orphans that have ended, if this is the first process of a container. Idempotent.

    An init collects all of them. This process has children of its own, whose ends other code waits
    for. Such a child is in this process's session or leads its own session; only others are
    collected.
    """
    if os.getpid() == _INIT and _Started.thread is None:
        _Started.thread = threading.Thread(target=_reap, name="sparkdrain-orphans", daemon=True)
        _Started.thread.start()


def _reap() -> None:
    while True:
        time.sleep(_REAP_SECONDS)
        for child in children():
            if child.state == _ZOMBIE and child.session not in {child.pid, os.getsid(0)}:
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(child.pid, os.WNOHANG)
