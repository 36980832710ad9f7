"""The folder that ``--state_dir`` names, on one host."""

from __future__ import annotations

import os
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sparkdrain import access, file_lock

if TYPE_CHECKING:
    from collections.abc import Iterator

_LOCK: Final = "lock"
_LOCK_SECONDS: Final = 30.0
"""How long to wait for a process that removes files, which takes seconds at most."""


class FolderRefused(Exception):
    """The folder cannot be used; says why, and what to do."""


@dataclass(frozen=True, slots=True)
class StateFolder:
    """A folder of one host and one user.

    Attributes:
        lock_seconds: how long ``shared`` waits.
    """

    path: Path
    lock_seconds: float = _LOCK_SECONDS

    @staticmethod
    def at(text: str) -> StateFolder:
        """The folder that an option names; nothing is made.

        Args:
            text: a path. ``~`` and ``$NAME`` are what this host says they are.

        Raises:
            FolderRefused: it is not an absolute path here.
        """
        named = os.path.expanduser(os.path.expandvars(text))
        if not os.path.isabs(named) or "$" in named:
            message = (
                f"--state_dir={text} is {named} on this host, which is no absolute path: set its "
                "variables in the environment of the executors, or give an absolute path"
            )
            raise FolderRefused(message)
        return StateFolder(Path(named))

    @property
    def files(self) -> Path:
        """Where files are, by content."""
        return self.path / "files"

    @property
    def notes(self) -> Path:
        """Where it is written down who needs which files."""
        return self.path / "notes"

    def prepare(self) -> None:
        """Make the folder for this user only, unless it is there.

        Raises:
            FolderRefused: it cannot be made, or other users may change what is in it.
        """
        try:
            access.prepare(self.path, group=False)
            for each in (self.files, self.notes):
                access.make_folder(each)
            for complaint in access.complaints(self.path):
                raise FolderRefused(complaint)
            (self.path / _LOCK).touch(0o600)
        except OSError as error:
            message = f"{self.path} cannot be used: {error}"
            raise FolderRefused(message) from error

    @contextmanager
    def shared(self) -> Iterator[None]:
        """Keep files from being removed while this lasts. Waits while a process removes files.

        Raises:
            LockKept: the process that removes files does not come to an end; names it.
            OSError: the folder cannot be locked.
        """
        descriptor = file_lock.open_locked(self.path / _LOCK, self.lock_seconds, shared=True)
        try:
            yield
        finally:
            os.close(descriptor)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """No process adds or removes files while this lasts.

        Raises:
            BlockingIOError: another process does so now.
            OSError: the folder cannot be locked.
        """
        with file_lock.locked_now(self.path / _LOCK):
            yield

    def swept(self) -> float:
        """When files were removed last, seconds since 1970; 0 if that is not known."""
        try:
            return (self.path / _LOCK).stat().st_mtime
        except OSError:
            return 0.0

    def sweeps(self, now: float) -> None:
        """Files are removed at this time, in seconds since 1970.

        Raises:
            OSError: that cannot be written down.
        """
        os.utime(self.path / _LOCK, (now, now))
