"""The seam between checkpoints and where they are kept."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from typing_extensions import override

from sparkdrain.checkpoints.reasons import tried_again
from sparkdrain.errors import CheckpointDamaged, CheckpointFailed
from sparkdrain.in_time import InTime, NoAnswer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

T = TypeVar("T")
CHUNK: Final = 1 << 22
"""How much of a file is in memory at a time, bytes. Each one costs a thread its turns in Python."""
ANSWER_SECONDS: Final = 60.0
"""How long a driver waits for one answer of the storage."""


class FileMissing(CheckpointDamaged):
    """A file is not there."""


class AlreadyThere(CheckpointFailed):
    """A file that was to be new is there, with other content."""


class Storage(Protocol):
    """Files by path, written as a whole. Thread-safe.

    What is assumed of it: a file that was written is read and listed from then on, by everybody
    (as local and network disks, GCS, S3 and Azure's stores promise today); and a file whose writer
    died is not there, or is never named by a manifest. Every method raises ``CheckpointFailed``,
    naming the path, if the storage does not do what it was asked.
    """

    def list(self, folder: str) -> dict[str, int]:
        """Files in and below ``folder``: their paths in it, and sizes; nothing if it is absent."""

    def chunks(self, path: str) -> Iterator[bytes]:
        """The content of a file, some ``CHUNK`` bytes at a time.

        Raises:
            FileMissing: it is not there.
        """

    def link(self, path: str, to: Path) -> bool:
        """Make ``to`` share the content of a file that never changes.

        Returns:
            Whether it does; this is possible on one disk only.
        """

    def write(self, path: str, chunks: Iterable[bytes]) -> None:
        """Make a file, or replace it; it survives the end of this machine.

        ``chunks`` may be a ``LocalFile``, which some storages copy or link without reading it. If
        they raise, so does this, and the file is as it was or is to be thrown away.
        """

    def publish(self, path: str, data: bytes) -> None:
        """Make a file in a folder of its own that is not there yet, as a whole or not at all.

        On a disk, one of several that make the same folder at once does, and the others are told.
        Object stores have no such call: there, all of them may. Again with the same name and
        content does nothing.

        Raises:
            AlreadyThere: the folder has another file, or this one with other content.
        """

    def settle(self, path: str) -> None:
        """Make a file that is there survive the end of this machine.

        Its writer may have died when others saw the file already, and it was not on disk yet.

        Raises:
            FileMissing: its folder is gone.
        """

    def delete(self, paths: Sequence[str]) -> None:
        """Remove files, in this order, and their folders if these are empty then.

        Files that are not there are none of its business.
        """


class TimedStorage(Storage):
    """A ``Storage`` for drivers, whose files are small: every call ends in time.

    A call that was given up may still take effect later, as with any storage that is far away. See
    ``InTime``.

    Args:
        seconds: how long a call may take.
    """

    def __init__(self, storage: Storage, seconds: float = ANSWER_SECONDS) -> None:
        self._storage = storage
        self._calls = InTime(seconds, "checkpoints")

    @override
    def list(self, folder: str) -> dict[str, int]:
        return self._in_time(folder, lambda: self._storage.list(folder))

    def chunks(self, path: str) -> Iterator[bytes]:
        """See ``Storage``; all in memory."""
        yield from self._in_time(path, lambda: tuple(self._storage.chunks(path)))

    @override
    def link(self, path: str, to: Path) -> bool:
        return self._in_time(path, lambda: self._storage.link(path, to))

    def write(self, path: str, chunks: Iterable[bytes]) -> None:
        """See ``Storage``; all in memory."""
        data = tuple(chunks)
        self._in_time(path, lambda: self._storage.write(path, data))

    @override
    def publish(self, path: str, data: bytes) -> None:
        self._in_time(path, lambda: self._storage.publish(path, data))

    @override
    def settle(self, path: str) -> None:
        self._in_time(path, lambda: self._storage.settle(path))

    @override
    def delete(self, paths: Sequence[str]) -> None:
        self._in_time(paths[0], lambda: self._storage.delete(paths))

    def _in_time(self, path: str, call: Callable[[], T]) -> T:
        try:
            return self._calls.call(f"the storage of {path}", call)
        except NoAnswer as error:
            message = f"{error}{tried_again(error.thread)}"
            raise CheckpointFailed(message) from None


@dataclass(frozen=True, slots=True)
class LocalFile:
    """The content, as chunks, of a local file that never changes: it may be shared.

    Attributes:
        moved: called all the time while it is read or copied; what it raises ends that.
    """

    path: Path
    moved: Callable[[], None]

    def __iter__(self) -> Iterator[bytes]:
        """Raises OSError if the file cannot be read."""
        for chunk in file_chunks(self.path):
            self.moved()
            yield chunk
        self.moved()


def read(storage: Storage, path: str) -> bytes:
    """All of a small file."""
    return b"".join(storage.chunks(path))


def file_chunks(path: Path) -> Iterator[bytes]:
    """The content of a local file.

    Raises:
        OSError: it cannot be read.
    """
    with path.open("rb") as file:
        while chunk := file.read(CHUNK):
            yield chunk
