"""Runs a command, and ends it with all that it has started when the caller is gone.

A program of its own, in which only the standard library is used: a slot's process may be killed,
and cannot end anything then. The first argument is a command that is run at the end, as JSON. The
second one is empty, or a file: see below. The others are the command.

The caller holds the other end of the standard input. Or several callers share the command. Then
each caller has a shared lock on the file. The standard input is for the command. When it has ended,
the status is in a file beside the file. When no caller is left, the folder of the file is removed.
"""

import contextlib
import ctypes
import fcntl
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence

NAME = "sparkdrain-sdks"
"""What the system calls the guard of a command that callers share; it takes 15 characters."""
ENDED = "ended"
_SET_DEATH_SIGNAL = 1  # of <linux/prctl.h>
_SET_NAME = 15
_PATIENCE_SECONDS = 3.0
# A relay has its harness tear down.
_SHARED_SECONDS = 13.0
_LOOK_SECONDS = 0.25
AT_THE_END_SECONDS = 60.0


def main() -> int:
    """Run the command of ``sys.argv``; its status."""
    at_the_end, held = json.loads(sys.argv[1]), sys.argv[2]
    ended = _ends_of_children()
    child = subprocess.Popen(  # noqa: S603
        sys.argv[3:],
        stdin=None if held else subprocess.DEVNULL,
        start_new_session=True,
        preexec_fn=_end_with_parent,  # noqa: PLW1509 - there is one thread
    )
    if held:
        _share(child, held, ended)
    while child.poll() is None:
        readable, _, _ = select.select([0, ended], [], [])
        if ended in readable:
            os.read(ended, 1)
        elif not os.read(0, 1):
            _end(child)
    # It may have left others behind.
    _kill(child, signal.SIGKILL)
    run_last(at_the_end)
    return _status(child)


def _share(child: "subprocess.Popen[bytes]", held: str, ended: int) -> None:
    """Let callers share the command, and end it when none is left."""
    _prctl(_SET_NAME, NAME.encode())
    # A socket that the command listens at is gone with the command.
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    folder, callers = os.path.dirname(held), os.open(held, os.O_RDWR)
    is_told = False
    while not _is_free(callers):
        if child.poll() is not None and not is_told:
            is_told = True
            # What it has left behind may have the socket, at which nothing listens now.
            _kill(child, signal.SIGKILL)
            _tell_end(os.path.join(folder, ENDED), _status(child))
        if select.select([ended], [], [], _LOOK_SECONDS)[0]:
            os.read(ended, 1)
    # No caller has the lock again while this process lives.
    if child.poll() is None:
        # It ends what it has started, and needs that until then.
        with contextlib.suppress(OSError):
            os.kill(child.pid, signal.SIGTERM)
        _await(child, _SHARED_SECONDS)
    shutil.rmtree(folder, ignore_errors=True)


def _tell_end(file: str, status: int) -> None:
    """Write a status down, if the disk has room."""
    with contextlib.suppress(OSError), open(file, "w", encoding="ascii") as ended:
        ended.write(str(status))


def _is_free(callers: int) -> bool:
    try:
        fcntl.flock(callers, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _status(child: "subprocess.Popen[bytes]") -> int:
    """How the command ended, as a shell tells it."""
    status: int = child.returncode
    return 128 - status if status < 0 else status


def run_last(command: Sequence[str]) -> None:
    """Run what is to be run at the end, if there is anything."""
    if command:
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            silent = subprocess.DEVNULL
            subprocess.run(  # noqa: S603
                command, check=False, stdout=silent, stderr=silent, timeout=AT_THE_END_SECONDS
            )


def _end_with_parent() -> None:
    """Have the kernel end this process if the guard is killed, and can end nothing."""
    _prctl(_SET_DEATH_SIGNAL, signal.SIGKILL)


def _prctl(option: int, value: "int | bytes") -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(option, value)


def _ends_of_children() -> int:
    """What can be read when a child may have ended."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    return reader


def _end(child: "subprocess.Popen[bytes]") -> None:
    _kill(child, signal.SIGTERM)
    _await(child, _PATIENCE_SECONDS)


def _await(child: "subprocess.Popen[bytes]", seconds: float) -> None:
    """Wait for its end, and then kill all that is left."""
    until = time.monotonic() + seconds
    while child.poll() is None and time.monotonic() < until:
        time.sleep(0.05)
    _kill(child, signal.SIGKILL)
    child.wait()


def _kill(child: "subprocess.Popen[bytes]", number: int) -> None:
    with contextlib.suppress(OSError):
        os.killpg(child.pid, number)


if __name__ == "__main__":
    sys.exit(main())
