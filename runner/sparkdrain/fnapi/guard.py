"""Runs a command, and ends it with all that it has started when the caller is gone.

A program of its own, in which only the standard library is used: a slot's process may be killed,
and cannot end anything then. The caller holds the other end of the standard input. The first
argument is a command that is run at the end, as JSON; the others are the command.
"""

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time

_PATIENCE_SECONDS = 3.0
AT_THE_END_SECONDS = 60.0


def main() -> int:
    """Run the command of ``sys.argv``; its status."""
    at_the_end = json.loads(sys.argv[1])
    ended = _ends_of_children()
    child = subprocess.Popen(sys.argv[2:], stdin=subprocess.DEVNULL, start_new_session=True)  # noqa: S603
    while child.poll() is None:
        readable, _, _ = select.select([0, ended], [], [])
        if ended in readable:
            os.read(ended, 1)
        elif not os.read(0, 1):
            _end(child)
    # It may have left others behind.
    _kill(child, signal.SIGKILL)
    if at_the_end:
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            silent = subprocess.DEVNULL
            subprocess.run(  # noqa: S603
                at_the_end, check=False, stdout=silent, stderr=silent, timeout=AT_THE_END_SECONDS
            )
    status = child.returncode
    if status < 0:
        return 128 - status
    return status


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
