"""Where hosts of one job live on one executor: their sockets, locks and scratch directories."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import socket
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sparkdrain import file_lock

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sparkdrain.hosts.line import HostId

# What an address of a unix socket may be long on every system, its final zero included.
_LONGEST_ADDRESS: Final = 104
# Where the kernel shows them as links; not on every system.
_DESCRIPTORS: Final = "/proc/self/fd"
_LOCK_SECONDS: Final = 150.0
"""How long to wait for a task that starts the host; a start is given up after 60 s."""


@dataclass(frozen=True, slots=True)
class Home:
    """The files of one slot's host.

    Attributes:
        job: the directory of the job; only this user may enter it.
        slot: the slot.
        lock_seconds: how long ``locked`` waits.
    """

    job: Path
    slot: int
    lock_seconds: float = _LOCK_SECONDS

    @staticmethod
    def of(host: HostId, directory: Path) -> Home:
        """The place of ``host`` below ``directory``; nothing is made."""
        digest = hashlib.blake2b(host.job.encode(), digest_size=8).hexdigest()
        return Home(directory / digest, host.slot)

    @property
    def _socket(self) -> Path:
        return self.job / f"{self.slot}.sock"

    @property
    def _lock(self) -> Path:
        return self.job / f"{self.slot}.lock"

    @contextmanager
    def locked(self, *, make: bool = True) -> Iterator[int]:
        """Be the only one at work on these files; the lock's descriptor.

        The content of the lock file names the scratch directory of the host born last.

        Raises:
            LockKept: another process does not come to an end with them; names it.
            FileNotFoundError: there is no lock, and it is not to be made.
        """
        descriptor = self._take_lock(make)
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    def _take_lock(self, make: bool) -> int:
        while True:
            if make:
                self.job.mkdir(mode=0o700, parents=True, exist_ok=True)
            try:
                return file_lock.open_locked(self._lock, self.lock_seconds, make=make)
            except FileNotFoundError:
                if not make:
                    raise
                # ``leave`` has just removed the directory.

    def connect(self) -> socket.socket | None:
        """A connection to the host, which may be busy; nothing if there is no host."""
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            with _short(self._socket) as address:
                connection.connect(address)
        except (FileNotFoundError, ConnectionRefusedError):
            connection.close()
            return None
        except BaseException:
            connection.close()
            raise
        return connection

    def listen(self) -> socket.socket:
        """Listen in the place of the process that did before; with the lock held."""
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.unlink(missing_ok=True)
        with _short(self._socket) as address:
            listener.bind(address)
        listener.listen()
        return listener

    def enter(self, lock: int) -> Path:
        """Make the scratch directory of a new host; with the lock held."""
        scratch = Path(tempfile.mkdtemp(prefix=f"{self.slot}-", dir=self.job))
        os.ftruncate(lock, 0)
        os.pwrite(lock, scratch.name.encode(), 0)
        return scratch

    def leave(self, scratch: Path) -> None:
        """Remove what is left of the host that had this scratch directory, and only of it."""
        shutil.rmtree(scratch, ignore_errors=True)
        # The executor may be removing the directories above.
        with contextlib.suppress(OSError), self.locked(make=False) as lock:
            if os.pread(lock, 255, 0).decode() == scratch.name:
                self._socket.unlink(missing_ok=True)
                self._lock.unlink()
        with contextlib.suppress(OSError):
            self.job.rmdir()


@contextmanager
def _short(path: Path) -> Iterator[str]:
    """``path`` itself, or another for the time being if it is too long for a socket's address."""
    if len(os.fsencode(path)) < _LONGEST_ADDRESS:
        yield str(path)
        return
    if os.path.isdir(_DESCRIPTORS):
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            yield f"{_DESCRIPTORS}/{folder}/{path.name}"
        finally:
            os.close(folder)
        return
    with tempfile.TemporaryDirectory(prefix="s") as directory:
        link = Path(directory) / "d"
        link.symlink_to(path.parent.absolute(), target_is_directory=True)
        yield str(link / path.name)
