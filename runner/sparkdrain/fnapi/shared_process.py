"""A process that the slots of an executor share: a JVM (``SharedHarness.java``), or a relay.

The process has a private folder, with a socket that it listens at, and a file. Each slot that uses
the process has a lock on the file, which the kernel takes away when the slot dies. A guard ends the
process when no slot has the lock.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import socket
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from typing_extensions import override

from sparkdrain import file_lock
from sparkdrain.fnapi import guard
from sparkdrain.fnapi.errors import DISCONNECTED
from sparkdrain.fnapi.process import (
    STOP_SECONDS,
    TOLD,
    Life,
    ended_with,
    start_guarded,
    written,
)
from sparkdrain.own_folder import OwnFolder, is_private

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sparkdrain.fnapi.process import Command

PROGRAM: Final = "SharedHarness.java"
_SOCKET: Final = "slots"
_HELD: Final = "held"
_OUTPUT: Final = "output"
_TAKEN: Final = "taken"
_ADDRESS_BYTES: Final = 1024
_LOCK_SECONDS: Final = 60.0
# A JVM that waits may be gone, and then a new one is started.
_STARTS: Final = 2
# Both as in the program of Java.
_CONNECTED: Final = b"c"
_END: Final = b"."
_LOOK_SECONDS: Final = 0.01
_GUARD_SECONDS: Final = 1.0
# The process waits 3 s for a bundle that is to end.
_STUCK_SECONDS: Final = 10.0


@dataclass(frozen=True, slots=True)
class SharedProcess:
    """A process that this one holds: it does not end before it is let go.

    Attributes:
        folder: its folder, with its socket, its output and the locked file.
        hold: descriptor of the file that is locked.
    """

    folder: Path
    hold: int

    @classmethod
    def start(cls, command: Callable[[Path], Command]) -> SharedProcess:
        """Start a process. Slots can connect when this returns, though it answers later.

        Args:
            command: the command, given the folder of the process.

        Raises:
            OSError: it cannot be started.
            HarnessNotStarted: there is no such command; says what to do.
        """
        own = OwnFolder.make()
        folder = Path(own.path)
        hold = None
        try:
            hold = _locked(folder / _HELD, os.O_CREAT)
            with socket.socket(socket.AF_UNIX) as listener:
                listener.bind(str(folder / _SOCKET))
                listener.listen(socket.SOMAXCONN)
                process = start_guarded(
                    command(folder),
                    folder / _OUTPUT,
                    held=str(folder / _HELD),
                    stdin=listener.fileno(),
                    kept=[own.lock],
                )
        except BaseException:
            own.remove()
            if hold is not None:
                os.close(hold)
            raise
        # It outlives what uses it here, and is to be no zombie then.
        threading.Thread(target=process.wait, name="sparkdrain-shared", daemon=True).start()
        # The guard has the lock of the folder now, and removes the folder.
        os.close(own.lock)
        return cls(folder, hold)

    @classmethod
    def held(cls, folder: Path) -> SharedProcess | None:
        """Hold the process of a folder; None if it has ended, or ends."""
        with contextlib.suppress(OSError):
            return cls(folder, _locked(folder / _HELD))
        return None

    def connect(self) -> socket.socket | None:
        """A connection for one slot; None if the process has ended."""
        if self.status() is not None:
            return None
        connection = socket.socket(socket.AF_UNIX)
        try:
            connection.connect(str(self.folder / _SOCKET))
        except OSError:
            connection.close()
            return None
        return connection

    def status(self) -> int | None:
        """How it has ended, as a shell tells it; None if it has not."""
        with contextlib.suppress(OSError, ValueError):
            return int((self.folder / guard.ENDED).read_text("ascii"))
        return None

    def last_words(self) -> str:
        """What it wrote last, as the end of a sentence."""
        return written(self.folder / _OUTPUT)

    def let_go(self) -> None:
        """Do without it."""
        with contextlib.suppress(OSError):
            # Processes that user code has forked have the same lock.
            fcntl.flock(self.hold, fcntl.LOCK_UN)
        os.close(self.hold)


class SpareProcess:
    """What a driver has of a process that waits for the next job: a JVM, or a relay.

    A file in a folder of the driver names the process's own folder. A slot takes the process for a
    job by renaming that file, which one slot alone can do. Then all slots of the job share the
    process.

    Args:
        shared: the process, which this object lets go.
        waiting: the file that tells slots of it.
    """

    def __init__(self, shared: SharedProcess, waiting: Path) -> None:
        self._shared = shared
        self._waiting = waiting

    def end_unless_taken(self) -> None:
        """End the process, unless slots use it. Then it ends with them."""
        self._waiting.unlink(missing_ok=True)
        self._shared.let_go()


def taken_by(waiting: Path) -> SharedProcess | None:
    """Take the process that a file tells of; None if another slot has it, or it has ended."""
    taken = waiting.with_name(_TAKEN)
    with contextlib.suppress(OSError):
        waiting.rename(taken)
        return SharedProcess.held(Path(taken.read_text("utf-8")))
    return None


class SharedHarness(Life):
    """A harness of a slot in a process that slots share.

    Args:
        name: what messages call it.
        endpoint: the address of the slot's services.
        place: where the slots of the executor find the process.
    """

    def __init__(self, name: str, endpoint: str, place: SharedPlace) -> None:
        super().__init__(endpoint)
        self._name = name
        self._place = place
        self._shared: SharedProcess | None = None
        self._connection: socket.socket | None = None

    def enter(self, start: Callable[[], SharedProcess], variables: Mapping[str, str]) -> Path:
        """Have the harness in the process; the folder of the process.

        Args:
            start: see ``SharedPlace.enter``.
            variables: that the process reads; no value has two lines.
        """
        shared, self._connection = self._place.enter(start)
        # If the process has ended, the next look tells.
        with contextlib.suppress(OSError):
            self._connection.sendall(lines(variables).encode())
        self._shared, self.told = shared, shared.folder / TOLD
        return shared.folder

    @override
    def connected(self) -> None:
        self._say(_CONNECTED)

    @override
    def how_it_ended(self) -> str:
        if self._shared is None or not self.has_ended():
            return ""
        # The guard writes its status a moment later.
        until = time.monotonic() + _GUARD_SECONDS
        while (status := self._shared.status()) is None and time.monotonic() < until:
            time.sleep(_LOOK_SECONDS)
        if status is None:
            return f"{self._name!r} has ended: {DISCONNECTED}{self.last_words()}"
        return ended_with(self._name, status, self.last_words())

    def has_ended(self, seconds: float = 0.0) -> bool:
        """Whether the harness has ended, or does within so many seconds."""
        connection = self._connection  # another thread may let it go
        if connection is None:
            return True
        look = select.poll()
        with contextlib.suppress(ValueError):
            look.register(connection, select.POLLIN)  # the process never says anything
            return bool(look.poll(seconds * 1000))
        return True  # it is let go now

    @override
    def last_words(self) -> str:
        return "" if self._shared is None else self._shared.last_words()

    @override
    def stop(self, *, at_once: bool = False) -> None:
        if self._shared is None:
            return
        self._finish(0.0 if at_once else STOP_SECONDS)
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(OSError):
                # Processes that user code has forked have the connection, too.
                connection.shutdown(socket.SHUT_RDWR)
            connection.close()
            self._shared.let_go()

    def _finish(self, seconds: float) -> None:
        """Wait until the harness has ended, or has nothing left to do but to close its log."""
        self._say(_END)
        until = time.monotonic() + seconds
        while not self.has_ended() and time.monotonic() < until:
            if self.torn_down.wait(_LOOK_SECONDS):
                return
        connection = self._connection
        if seconds and connection is not None:
            # If a bundle runs on, the process ends. The next harness must not be in it.
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_WR)
            self.has_ended(_STUCK_SECONDS)

    def _say(self, what: bytes) -> None:
        connection = self._connection  # another thread may let it go
        if connection is not None:
            with contextlib.suppress(OSError):
                connection.send(what)


@dataclass(frozen=True, slots=True)
class SharedPlace:
    """Where the slots of an executor find the process that they share.

    Attributes:
        folder: the executor's folder. It is made if it is missing; the folder above it is not.
        key: names what the slots must have in common.
    """

    folder: Path
    key: str

    def enter(self, start: Callable[[], SharedProcess]) -> tuple[SharedProcess, socket.socket]:
        """The process that another slot has started, else a new one, and a connection to it.

        Args:
            start: starts a process, or takes one that waits.

        Raises:
            OSError: there is no place for files, or the process cannot be started.
            LockKept: another slot does not come to an end with the start.
            HarnessNotStarted: the process cannot be started; says what to do.
        """
        self.folder.mkdir(mode=0o700, exist_ok=True)
        if not is_private(str(self.folder)):
            message = (
                f"Other users can enter {self.folder}, in which slots find the process that they "
                "share. Remove the folder, or see to it that only this user can make folders there."
            )
            raise PermissionError(message)
        lock = file_lock.open_locked(self.folder / self.key, _LOCK_SECONDS)
        shared: SharedProcess | None = None
        try:
            told = os.pread(lock, _ADDRESS_BYTES, 0).decode()
            shared = SharedProcess.held(Path(told)) if told else None
            connection = None if shared is None else shared.connect()
            starts = _STARTS
            while (shared is None or connection is None) and starts:
                if shared is not None:
                    shared.let_go()
                    shared = None
                shared, starts = start(), starts - 1
                os.ftruncate(lock, 0)
                os.pwrite(lock, str(shared.folder).encode(), 0)
                connection = shared.connect()
        except BaseException:
            # It may be that the disk is full.
            if shared is not None:
                shared.let_go()
            raise
        finally:
            os.close(lock)
        assert shared is not None
        if connection is None:
            # It has ended at once, which the slot sees.
            connection, other = socket.socketpair()
            other.close()
        return shared, connection


def lines(variables: Mapping[str, str]) -> str:
    """Variables as the process reads them, up to an empty line."""
    return "".join(f"{name}={value}\n" for name, value in variables.items()) + "\n"


def _locked(file: Path, flags: int = 0) -> int:
    """A file with a lock that is shared with others."""
    descriptor = os.open(file, os.O_RDWR | os.O_CLOEXEC | flags, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor
