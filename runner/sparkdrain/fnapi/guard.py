"""Runs a command, and ends it with all that it has started when the caller is gone.

A program of its own, in which only the standard library is used: a slot's process may be killed,
and cannot end anything then. The caller holds the other end of the standard input. The first
argument is a command that is run at the end, as JSON; the others are the command.
"""

import contextlib
import ctypes
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Sequence

_SET_DEATH_SIGNAL = 1  # of <linux/prctl.h>
_PATIENCE_SECONDS = 3.0
AT_THE_END_SECONDS = 60.0


def main() -> int:
    """Run the command of ``sys.argv``; its status."""
    at_the_end = json.loads(sys.argv[1])
    ended = _ends_of_children()
    child = subprocess.Popen(  # noqa: S603
        sys.argv[2:],
        stdin=subprocess.DEVNULL,
        start_new_session=True,
        preexec_fn=_end_with_parent,  # noqa: PLW1509 - there is one thread
    )
    while child.poll() is None:
        readable, _, _ = select.select([0, ended], [], [])
        if ended in readable:
            os.read(ended, 1)
        elif not os.read(0, 1):
            _end(child)
    # It may have left others behind.
    _kill(child, signal.SIGKILL)
    run_last(at_the_end)
    status = child.returncode
    if status < 0:
        return 128 - status
    return status


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
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_SET_DEATH_SIGNAL, signal.SIGKILL)


def _ends_of_children() -> int:
    """What can be read when a child may have ended."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    return reader


def _end(child: "subprocess.Popen[bytes]") -> None:
    _kill(child, signal.SIGTERM)
    until = time.monotonic() + _PATIENCE_SECONDS
    while child.poll() is None and time.monotonic() < until:
        time.sleep(0.05)
    _kill(child, signal.SIGKILL)
    child.wait()


def _kill(child: "subprocess.Popen[bytes]", number: int) -> None:
    with contextlib.suppress(OSError):
        os.killpg(child.pid, number)


if __name__ == "__main__":
    sys.exit(main())
