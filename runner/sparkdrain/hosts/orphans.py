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
from typing import Final, NamedTuple

_SET_CHILD_SUBREAPER: Final = 36
_INIT: Final = 1
_END_SECONDS: Final = 5.0
_PAUSE_SECONDS: Final = 0.02
_REAP_SECONDS: Final = 1.0
_ZOMBIE: Final = "Z"


class Child(NamedTuple):
    """A child of this process.

    Attributes:
        pid: its id.
        state: a letter, as the system has it.
        session: id of its session.
    """

    pid: int
    state: str
    session: int


def adopt_orphans() -> bool:
    """Become the parent of orphans among the descendants; False where the system has no such thing.

    Children that are forked later do not inherit this.
    """
    if sys.platform != "linux":
        return False
    prctl = getattr(ctypes.CDLL(None), "prctl", None)
    return prctl is not None and prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0


def children() -> list[Child]:
    """The children of this process, adopted ones too; none where there is no ``/proc``."""
    own, found = os.getpid(), []
    for file in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            # The name of the program, in parentheses, can have any content.
            state, parent, _, session, *_ = file.read_text().rpartition(")")[2].split()
            if int(parent) == own:
                found.append(Child(int(file.parent.name), state, int(session)))
    return found


def end_orphans(seconds: float = _END_SECONDS) -> None:
    """Kill all children, and their children, which are orphans then; for a process that is to end.

    Args:
        seconds: how long this may take at most.
    """
    deadline = time.monotonic() + seconds
    while (found := children()) and time.monotonic() < deadline:
        for child in found:
            with contextlib.suppress(OSError):
                os.kill(child.pid, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(child.pid, os.WNOHANG)
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
