"""Files by content: kept, and given back byte for byte or not at all.

No file is synced to disk. What a crash or a loss of power has torn has another digest, and is not
given.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import secrets
import shutil
import stat
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from io import FileIO
    from pathlib import Path

_NAME: Final = re.compile(r"[0-9a-f]{64}")
_CHUNK: Final = 1 << 22
_PART: Final = ".part"
# What systems say that cannot link these two: the disks differ, or one has no links.
_NO_LINKS: Final = frozenset(
    {errno.EXDEV, errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK}
)
# A folder may hold anything: a link leads elsewhere, and a pipe would be waited for.
_CAREFULLY: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


@dataclass(frozen=True, order=True, slots=True)
class FileContent:
    """The content of a file, which tells it apart.

    Attributes:
        digest: SHA-256, hexadecimal.
        size: in bytes.
    """

    digest: str
    size: int


@dataclass(frozen=True, slots=True)
class LocalFiles:
    """Files of a folder, each called by its digest."""

    folder: Path

    def has(self, content: FileContent) -> bool:
        """Whether a file of that name and size is there. Its bytes are not read."""
        try:
            found = os.lstat(self._path(content))
        except OSError:
            return False
        return _is_whole(found, content)

    def sizes(self) -> dict[str, int]:
        """All files, and how large each is.

        Raises:
            OSError: the folder cannot be read.
        """
        sizes = {}
        with os.scandir(self.folder) as found:
            for entry in found:
                with suppress(FileNotFoundError):
                    if _NAME.fullmatch(entry.name):
                        sizes[entry.name] = entry.stat(follow_symlinks=False).st_size
        return sizes

    def give(
        self, content: FileContent, to: Path, *, link: bool, moved: Callable[[], object]
    ) -> bool:
        """Make ``to``, which must not be there, a file with that content.

        A file that is damaged is removed from the folder.

        Args:
            content: what it must have. Every byte is read and summed.
            to: path.
            link: whether it may share the file's bytes: nothing ever changes it.
            moved: called all the time; what it raises ends this.

        Returns:
            Whether it is there. If not, nothing is at ``to``.
        """
        given = False
        try:
            with suppress(OSError):
                given = self._give(content, to, link=link, moved=moved)
        finally:
            if not given:
                with suppress(OSError):
                    to.unlink()
        return given

    def _give(
        self, content: FileContent, to: Path, *, link: bool, moved: Callable[[], object]
    ) -> bool:
        path = self._path(content)
        descriptor = os.open(path, _CAREFULLY)
        with open(descriptor, "rb", buffering=0) as source:
            found = os.fstat(descriptor)
            if not _is_whole(found, content):
                _remove(path)
                return False
            shared = link and _linked(path, to) and os.path.samestat(os.lstat(to), found)
            if shared:
                digest = _summed(source, content.size, moved, lambda data: None)
            else:
                to.unlink(missing_ok=True)
                with to.open("xb", buffering=0) as copy:
                    write = partial(_write, copy.fileno())
                    digest = _summed(source, content.size, moved, write)
        if digest != content.digest:
            _remove(path)
            return False
        return True

    def keep(
        self, content: FileContent, source: Path, *, link: bool, moved: Callable[[], object]
    ) -> None:
        """Keep a file, unless one of that name and size is here.

        Args:
            source: the file, which must not change while this lasts.
            link: whether the file never changes, so that its bytes may be shared.
            moved: called all the time; what it raises ends this.

        Raises:
            OSError: the disk refuses. The file is not here then, and nothing is left of it.
        """
        path = self._path(content)
        if self.has(content):
            return
        _remove(path)
        if link and _linked(source, path):
            return
        with _coming(path) as part:
            _copy(source, part, moved)

    def bring(self, content: FileContent, chunks: Iterable[bytes]) -> None:
        """Keep what comes from elsewhere, unless it is here.

        Args:
            chunks: its bytes. The caller compares them with the content, and raises.

        Raises:
            OSError: the disk refuses. The file is not here then, and nothing is left of it.
        """
        with (
            _coming(self._path(content)) as part,
            open(part, "xb", opener=_for_this_user) as target,
        ):
            target.writelines(chunks)

    def remove(self, name: str) -> None:
        """Remove what has this name, if it is there."""
        _remove(self.folder / name)

    def parts(self, before: float) -> list[str]:
        """Files that were being copied and have not changed since that time.

        Args:
            before: seconds since 1970.

        Raises:
            OSError: the folder cannot be read.
        """
        old = []
        with os.scandir(self.folder) as found:
            for entry in found:
                with suppress(FileNotFoundError):
                    is_old = entry.stat(follow_symlinks=False).st_mtime < before
                    if entry.name.endswith(_PART) and is_old:
                        old.append(entry.name)
        return old

    def _path(self, content: FileContent) -> Path:
        if not _NAME.fullmatch(content.digest):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), content.digest)
        return self.folder / content.digest


@contextmanager
def _coming(path: Path) -> Iterator[str]:
    """The name of a new file, which is called ``path`` once it is whole."""
    part = f"{path}.{secrets.token_hex(4)}{_PART}"
    try:
        yield part
        os.rename(part, path)
    finally:
        with suppress(OSError):
            os.unlink(part)


def _for_this_user(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_CLOEXEC, 0o600)


def _is_whole(found: os.stat_result, content: FileContent) -> bool:
    # The owner of a file can change it after it was read.
    is_ours = stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid()
    return is_ours and found.st_size == content.size


def _linked(source: Path, to: Path) -> bool:
    try:
        os.link(source, to)
    except FileExistsError:
        return True  # another process was faster
    except OSError as error:
        if error.errno in _NO_LINKS:
            return False
        raise
    return True


def _summed(
    source: FileIO, size: int, moved: Callable[[], object], write: Callable[[memoryview], object]
) -> str:
    """Reads a file to its end; its digest."""
    summed = hashlib.sha256()
    # One buffer for all of it: memory that is new costs more than reading into it.
    buffer = memoryview(bytearray(min(_CHUNK, max(1, size))))
    while read := source.readinto(buffer):
        summed.update(buffer[:read])
        write(buffer[:read])
        moved()
    return summed.hexdigest()


def _copy(source: Path, to: str, moved: Callable[[], object]) -> None:
    descriptor = os.open(to, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with open(descriptor, "wb", buffering=0) as copy, source.open("rb", buffering=0) as file:
        while chunk := file.read(_CHUNK):
            _write(copy.fileno(), memoryview(chunk))
            moved()


def _write(descriptor: int, data: memoryview) -> None:
    while data:
        data = data[os.write(descriptor, data) :]


def _remove(path: Path) -> None:
    with suppress(OSError):
        if stat.S_ISDIR(os.lstat(path).st_mode):
            shutil.rmtree(path)
        else:
            path.unlink()
