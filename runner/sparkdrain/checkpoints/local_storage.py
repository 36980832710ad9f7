"""Checkpoints on a disk that all machines of the job see: files appear by rename, after fsync."""

from __future__ import annotations

import errno
import os
import secrets
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from typing_extensions import override

from sparkdrain import access
from sparkdrain.checkpoints.storage import (
    CHUNK,
    AlreadyThere,
    FileMissing,
    LocalFile,
    Storage,
    file_chunks,
)
from sparkdrain.errors import CheckpointFailed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

T = TypeVar("T")
# What file systems say that have no hard links.
_NO_LINKS: Final = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK})
# What file systems say when a folder is to have the name of one that holds something.
_NOT_EMPTY: Final = frozenset({errno.ENOTEMPTY, errno.EEXIST})
# How often a folder is made for a file before that fails.
_TRIES: Final = 3
# What systems say that cannot copy from one of these file systems to the other by themselves.
_NO_COPY: Final = frozenset(
    {errno.EXDEV, errno.EINVAL, errno.EOPNOTSUPP, errno.ENOSYS, errno.EPERM}
)


class LocalStorage(Storage):
    """See ``Storage``. What a writer that died leaves has the name of its file and ``.part``.

    Files and folders are for those who may use the folder that they are in, see ``access``.
    """

    def __init__(self) -> None:
        # Folders whose names are on disk; this process or another has made them.
        self._settled: set[str] = set()

    @override
    def list(self, folder: str) -> dict[str, int]:
        try:
            return dict(_walk(folder, ""))
        except FileNotFoundError:
            return {}
        except OSError as error:
            message = f"{folder} cannot be listed: {error}"
            raise CheckpointFailed(message) from error

    @override
    def chunks(self, path: str) -> Iterator[bytes]:
        with _there(path, "cannot be read"):
            yield from file_chunks(Path(path))

    @override
    def link(self, path: str, to: Path) -> bool:
        try:
            os.link(path, to)
        except OSError:
            return False  # the caller reads the file instead, which tells what is wrong with it
        return True

    @override
    def write(self, path: str, chunks: Iterable[bytes]) -> None:
        part = _part(path)
        try:
            if not (isinstance(chunks, LocalFile) and _shared(chunks, part)):
                _write(part, chunks)
            os.replace(part, path)
            access.sync_folder(Path(path).parent)
            self._settle(os.path.dirname(path))
        except OSError as error:
            message = f"{path} cannot be written: {error}"
            raise CheckpointFailed(message) from error
        finally:
            _remove(part)

    @override
    def publish(self, path: str, data: bytes) -> None:
        folder, name = os.path.split(path)
        part = _part(folder)
        try:
            _in_folder(part, lambda: access.make_folder(Path(part)))
            _write(f"{part}/{name}", [data])
            access.sync_folder(Path(part))
            _rename_folder(part, path, data)
            access.sync_folder(Path(folder).parent)
            self._settle(os.path.dirname(folder))
        except OSError as error:
            message = f"{path} cannot be written: {error}"
            raise CheckpointFailed(message) from error
        finally:
            _remove(f"{part}/{name}")
            _remove_folder(part)

    @override
    def settle(self, path: str) -> None:
        with _there(path, "may not survive a loss of power"):
            access.settle(Path(path).parent)

    @override
    def delete(self, paths: Sequence[str]) -> None:
        for path in paths:
            try:
                Path(path).unlink(missing_ok=True)
            except OSError as error:
                message = f"{path} cannot be deleted: {error}"
                raise CheckpointFailed(message) from error
            _remove_folder(os.path.dirname(path))

    def _settle(self, folder: str) -> None:
        """Makes the name of a folder survive that another process may have made, and died."""
        if folder not in self._settled:
            access.sync_folder(Path(folder).parent)
            self._settled.add(folder)


@contextmanager
def _there(path: str, wrong: str) -> Iterator[None]:
    """Says of a file that should be there that it is missing, or what else is wrong with it."""
    try:
        yield
    except FileNotFoundError as error:
        message = f"{path} is missing"
        raise FileMissing(message) from error
    except OSError as error:
        message = f"{path} {wrong}: {error}"
        raise CheckpointFailed(message) from error


def _walk(folder: str, prefix: str) -> Iterator[tuple[str, int]]:
    with os.scandir(folder) as found:
        for entry in found:
            name = f"{prefix}{entry.name}"
            if entry.is_dir(follow_symlinks=False):
                yield from _walk(entry.path, f"{name}/")
                continue
            with suppress(FileNotFoundError):  # others rename and delete while we look
                yield name, entry.stat().st_size


def _part(path: str) -> str:
    return f"{path}.{secrets.token_hex(4)}.part"


def _in_folder(path: str, make: Callable[[], T]) -> T:
    """Makes a file or folder, and the folder that it is in if there is none."""
    for _ in range(_TRIES):
        with suppress(FileNotFoundError):  # others remove folders that are empty
            return make()
        _make_folder(Path(path).parent)
    return make()


def _make_folder(folder: Path) -> None:
    if folder.is_dir():
        return
    _make_folder(folder.parent)
    access.make_folder(folder)
    access.sync_folder(folder.parent)  # else what is in it may be lost with its name


def _write(path: str, chunks: Iterable[bytes]) -> None:
    with _in_folder(path, lambda: open(path, "xb", opener=access.opener)) as file:
        if not (isinstance(chunks, LocalFile) and _copied(chunks, file.fileno())):
            for chunk in chunks:
                file.write(chunk)
        file.flush()
        os.fsync(file.fileno())


def _shared(source: LocalFile, path: str) -> bool:
    """Links a file instead of copying it; False if it is on another file system, or has no links.

    It does not outlive the disk, but neither would a copy.
    """
    try:
        _in_folder(path, lambda: os.link(source.path, path))
    except OSError as error:
        if error.errno in _NO_LINKS or error.errno == errno.EXDEV:
            return False
        raise
    source.moved()
    os.chmod(path, access.mode_of_files(Path(path).parent))
    with open(path, "rb") as file:
        os.fsync(file.fileno())
    source.moved()
    return True


def _copied(source: LocalFile, target: int) -> bool:
    """Has the system copy a file; False if it cannot."""
    if not hasattr(os, "copy_file_range"):
        return False
    with source.path.open("rb", buffering=0) as file:
        copied = 0
        try:
            while size := os.copy_file_range(file.fileno(), target, CHUNK):
                copied += size
                source.moved()
        except OSError as error:
            if copied or error.errno not in _NO_COPY:
                raise
            return False
        missing = os.fstat(file.fileno()).st_size - copied
    if copied and missing:
        message = f"{source.path} was copied but for its last {missing} bytes"
        raise OSError(errno.EIO, message)
    # Some systems say of a file that they cannot copy that there is nothing in it.
    return not missing


def _rename_folder(part: str, path: str, data: bytes) -> None:
    """Gives a folder with one file its name in one step, unless another folder has that name."""
    folder, name = os.path.split(path)
    try:
        os.rename(part, folder)
    except OSError as error:
        if error.errno not in _NOT_EMPTY:
            raise
        there = sorted(os.listdir(folder))
        if there == [name] and Path(path).read_bytes() == data:
            return
        message = f"{folder} is there already, with {', '.join(there)}: another driver wrote it"
        raise AlreadyThere(message) from error
    os.stat(path)  # some file systems move a folder into one that is there


def _remove(path: str) -> None:
    with suppress(OSError):
        os.unlink(path)


def _remove_folder(path: str) -> None:
    with suppress(OSError):  # others use it
        os.rmdir(path)
