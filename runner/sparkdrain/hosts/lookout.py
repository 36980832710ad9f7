"""How a warden sees what its host is doing, even if user code keeps the interpreter's lock.

A thread of the host answers the warden. The thread needs the interpreter's lock. User code in C
may keep that lock for hours, as a regular expression does. The warden then sends a signal. The
handler of ``faulthandler`` is written in C, needs no lock, and writes the stack into a file.
"""

from __future__ import annotations

import contextlib
import faulthandler
import mmap
import os
import signal
import socket
import struct
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sparkdrain.hosts.line import Sight

if TYPE_CHECKING:
    from collections.abc import Callable

NOTES: Final = "notes"
"""The file in the scratch directory where a service notes down what a stack cannot say."""
# One that user code hardly uses. Not every system has it.
SIGNAL: Final = getattr(signal, "SIGRTMAX", signal.SIGUSR2)
_SINCE: Final = struct.Struct("d")
_HEAD: Final = struct.Struct(">QI")
_QUESTION: Final = struct.Struct(">Q")
# How long the host has for its answer, and then the signal's handler for the stack; seconds.
_ANSWER_SECONDS: Final = 5.0
_DUMP_SECONDS: Final = 1.0
_PAUSE_SECONDS: Final = 0.05
_MOST_NOTES: Final = 1 << 20


class Lookout:
    """What a warden and its host share; made by the warden before it forks the host.

    Args:
        scratch: the host's directory.
        clock: seconds, the same in all processes of the machine.
    """

    def __init__(self, scratch: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self._scratch = scratch
        self._clock = clock
        # When the present call began; 0 between two calls.
        self._since = mmap.mmap(-1, _SINCE.size)
        self._wardens, self._hosts = socket.socketpair()
        self._dump = tempfile.TemporaryFile(dir=scratch, buffering=0)  # noqa: SIM115
        self._number = 0

    # --- in the host --------------------------------------------------------------------------

    @property
    def descriptors(self) -> frozenset[int]:
        """What the host needs of it."""
        return frozenset({self._hosts.fileno(), self._dump.fileno()})

    def answer(self, look: Callable[[], bytes]) -> None:
        """Answer the warden with ``look``, in a thread, from now on."""
        faulthandler.register(SIGNAL, self._dump, all_threads=False)
        threading.Thread(
            target=self._answer, args=(look,), name="host-lookout", daemon=True
        ).start()

    def _answer(self, look: Callable[[], bytes]) -> None:
        # All signals are the main thread's: the handler shows the stack of the thread that it
        # runs in.
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        with contextlib.suppress(OSError):
            while question := self._hosts.recv(_QUESTION.size):
                # User code can have any state; a warden that gets no answer looks by itself.
                with contextlib.suppress(Exception):
                    told = look()
                    (number,) = _QUESTION.unpack(question)
                    self._hosts.sendall(_HEAD.pack(number, len(told)) + told)

    def begun(self) -> None:
        """A call begins."""
        _SINCE.pack_into(self._since, 0, self._clock())

    def ended(self) -> None:
        """The call has ended."""
        _SINCE.pack_into(self._since, 0, 0.0)

    # --- in the warden ------------------------------------------------------------------------

    def sight(self, number: int, host: int) -> Sight:
        """What the process ``host`` is doing; takes 6 seconds at most."""
        (since,) = _SINCE.unpack_from(self._since)
        if not since:
            return Sight(number, None)
        seconds = self._clock() - since
        told = self._ask()
        if told is not None:
            return Sight(number, seconds, told)
        return Sight(number, seconds, None, self._dumped(host), self._noted())

    def _ask(self) -> bytes | None:
        self._number += 1
        deadline = self._clock() + _ANSWER_SECONDS
        try:
            self._wardens.settimeout(_ANSWER_SECONDS)
            self._wardens.sendall(_QUESTION.pack(self._number))
            while True:
                number, size = _HEAD.unpack(self._take(_HEAD.size, deadline))
                told = self._take(size, deadline)
                # Others are answers to questions that came too late.
                if number == self._number:
                    return told
        except (OSError, EOFError):
            return None

    def _take(self, size: int, deadline: float) -> bytes:
        taken = bytearray()
        while len(taken) < size:
            self._wardens.settimeout(max(deadline - self._clock(), 0.001))
            part = self._wardens.recv(size - len(taken))
            if not part:
                raise EOFError
            taken += part
        return bytes(taken)

    def _dumped(self, host: int) -> str:
        if not _catches(host, SIGNAL):
            return ""
        self._dump.truncate(0)
        self._dump.seek(0)
        os.kill(host, SIGNAL)
        deadline, before = self._clock() + _DUMP_SECONDS, b""
        while self._clock() < deadline:
            time.sleep(_PAUSE_SECONDS)
            # The host's handler moves the same position.
            written = os.pread(self._dump.fileno(), 1 << 20, 0)
            if written and written == before:
                break
            before = written
        return before.decode(errors="replace")

    def _noted(self) -> str:
        try:
            with (self._scratch / NOTES).open(errors="replace") as notes:
                return notes.read(_MOST_NOTES)
        except OSError:
            return ""


def _catches(pid: int, number: int) -> bool:
    """Whether the signal is handled in that process, which it would end otherwise. On Linux."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            name, _, value = line.partition(":")
            if name == "SigCgt":
                return bool(int(value, 16) >> (number - 1) & 1)
    return False
