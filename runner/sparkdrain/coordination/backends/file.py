"""A metadata store in a directory: a file for each record. For all processes that can see it."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from typing_extensions import override

from sparkdrain import access, file_lock
from sparkdrain.coordination import backend, on_disk
from sparkdrain.coordination.metadata import (
    ANY,
    CorruptRecord,
    Handle,
    Keys,
    MetadataStore,
    OnCorrupt,
    StoreDown,
    Versioned,
    fail,
    version_of,
)
from sparkdrain.coordination.timed_store import ANSWER_SECONDS, TimedStore
from sparkdrain.errors import BadSetup
from sparkdrain.in_time import InTime, NoAnswer

if TYPE_CHECKING:
    from collections.abc import Iterator

_LOCK: Final = "lock"
_UNFINISHED: Final = ".unfinished"
_LOCK_SECONDS: Final = 10.0
"""How long a writer waits for its turn; a turn takes milliseconds."""

_ENDING: Final = ".record"
_MAGIC: Final = b"sparkdrain-metadata 1 "
_LONGEST_SHOWN: Final = 120
_BEFORE_VERSIONS: Final = {"key", "size", "sha256"}
_REMEDY: Final = "Remove the file: what it held is lost, other records are not affected."


class Backend(backend.Backend):
    """See ``coordination.backend.Backend``. A place is a directory."""

    place = staticmethod(on_disk.place)
    reach = staticmethod(on_disk.reach)
    exists = staticmethod(on_disk.exists)
    prepare = staticmethod(on_disk.prepare)

    @override
    def open(self, place: str) -> MetadataStore:
        opening = InTime(ANSWER_SECONDS, "metadata-store")
        try:
            store = opening.call(f"The metadata store in {place}", lambda: FileStore(Path(place)))
            return TimedStore(store, place)
        except (StoreDown, NoAnswer) as error:
            raise BadSetup(str(error)) from error


class FileStore(MetadataStore):
    """See ``MetadataStore``. Every record is on disk when a call returns.

    Writers of all processes take turns by a lock that ends with its process. Readers need none: a
    file is replaced as a whole. The file system must have ``flock`` and atomic renames, as local
    ones and NFS 4 have.
    """

    def __init__(self, root: Path, lock_seconds: float = _LOCK_SECONDS) -> None:
        """Open the store in ``root``, or begin one there.

        Args:
            root: the directory.
            lock_seconds: how long a writer waits for its turn.

        Raises:
            StoreDown: the directory cannot be made or written, or another process keeps the lock;
                names that process.
        """
        self._root = root
        self._lock_seconds = lock_seconds
        self._handle = Handle(f"The metadata store in {root}")
        # Namespaces whose folders are on disk; this process or another has made them.
        self._settled: set[str] = set()
        with self._alone():
            access.settle(root)
            for unfinished in root.glob(f"*/*{_UNFINISHED}"):
                unfinished.unlink()  # its writer has crashed, or it would have the lock

    @override
    def get(self, namespace: str, key: str) -> Versioned | None:
        self._handle.check(namespace, key)
        return self._read(namespace, key)

    @override
    def put(self, namespace: str, key: str, value: bytes, version: str = ANY) -> str | None:
        self._handle.check(namespace, key)
        with self._alone():
            if not self._has(namespace, key, version):
                return None
            return self._write(namespace, key, value)

    @override
    def remove(self, namespace: str, key: str, version: str = ANY) -> bool:
        self._handle.check(namespace, key)
        with self._alone():
            if not self._has(namespace, key, version):
                return False
            path = self._root / namespace / file_name(key)
            with contextlib.suppress(FileNotFoundError):
                path.unlink()
                access.sync_folder(path.parent)
            return True

    @override
    def all(
        self, namespace: str, on_corrupt: OnCorrupt = fail, without: Keys = (), prefix: str = ""
    ) -> dict[str, Versioned]:
        self._handle.check(namespace)
        records = {}
        # Neither opened nor read: a caller who looks each second asks for what is new.
        left_out = {file_name(key) for key in without}
        for path in self._files(namespace):
            if path.name in left_out or not _may_begin(path.name, prefix):
                continue
            try:
                record = self._load(path)
            except CorruptRecord as error:
                on_corrupt(error)
                continue
            # A record that is gone was removed meanwhile.
            if record is not None and record[0].startswith(prefix):
                records[record[0]] = record[1]
        return records

    @override
    def close(self) -> None:
        self._handle.close()

    def _has(self, namespace: str, key: str, version: str) -> bool:
        return version == ANY or version == version_of(self._read(namespace, key))

    def _read(self, namespace: str, key: str) -> Versioned | None:
        path = self._root / namespace / file_name(key)
        record = self._load(path)
        if record is not None and record[0] != key:
            message = f"{path} is damaged: it holds the record of {record[0]!r}. {_REMEDY}"
            raise CorruptRecord(message)
        return None if record is None else record[1]

    def _load(self, path: Path) -> tuple[str, Versioned] | None:
        with self._as_down():
            try:
                data = path.read_bytes()
            except FileNotFoundError:
                return None
        try:
            return decode(data)
        except DamagedFile as error:
            message = f"{path} is damaged: {error}. {_REMEDY}"
            raise CorruptRecord(message) from error

    def _files(self, namespace: str) -> list[Path]:
        with self._as_down():
            try:
                names = os.listdir(self._root / namespace)
            except FileNotFoundError:
                return []
        return [self._root / namespace / name for name in sorted(names) if name.endswith(_ENDING)]

    def _write(self, namespace: str, key: str, value: bytes) -> str:
        """Replace the record, and tell its version; others write nothing meanwhile."""
        directory = self._root / namespace
        path = directory / file_name(key)
        version = secrets.token_hex(16)
        if namespace not in self._settled:
            access.make_folder(directory)
            access.sync_folder(self._root)
            self._settled.add(namespace)
        unfinished = directory / f"{secrets.token_hex(8)}{_UNFINISHED}"
        try:
            with open(unfinished, "xb", opener=access.opener) as file:
                file.write(encode(key, value, version))
                file.flush()
                os.fsync(file.fileno())
            os.replace(unfinished, path)
        except BaseException:
            unfinished.unlink(missing_ok=True)
            raise
        access.sync_folder(directory)
        return version

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """No other handle writes, in whatever thread or process: each opens the file anew."""
        with self._as_down():
            if not self._root.is_dir():
                above = self._root.parent
                access.prepare(self._root, group=above.is_dir() and access.is_shared(above))
            with open(self._root / _LOCK, "ab", opener=access.opener) as lock:
                file_lock.lock(lock.fileno(), self._root / _LOCK, self._lock_seconds)
                yield

    @contextlib.contextmanager
    def _as_down(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            message = f"{self._handle.store} cannot be used now: {error}"
            raise StoreDown(message) from error


class DamagedFile(ValueError):
    """The bytes of a file are not those of a record; says what is wrong with them."""


def file_name(key: str) -> str:
    """The name of a key's file: its beginning for people, its digest to tell it from others."""
    digest = hashlib.sha256(key.encode()).hexdigest()
    return f"{quote(key, safe='')[:_LONGEST_SHOWN]}-{digest[:32]}{_ENDING}"


def _may_begin(name: str, prefix: str) -> bool:
    """Whether the key of a file with that name may begin so; if not, the file need not be read."""
    return name.startswith(quote(prefix, safe="")[:_LONGEST_SHOWN])


def encode(key: str, value: bytes, version: str) -> bytes:
    """A line that says what follows, then the value as it is."""
    fields = {"key": key, "size": len(value), "sha256": _digest(key, value), "version": version}
    head = json.dumps({**fields, "head": _head_digest(fields)})
    return _MAGIC + head.encode() + b"\n" + value


def decode(data: bytes) -> tuple[str, Versioned]:
    """Key and record. The version of a file that has none is the digest of the record.

    Releases before versions wrote such files, and read files that have one.

    Raises:
        DamagedFile: a byte is missing, is too many or has changed.
    """
    line, newline, value = data.partition(b"\n")
    if not newline or not line.startswith(_MAGIC):
        message = f"it does not begin with {_MAGIC.decode().strip()!r}"
        raise DamagedFile(message)
    try:
        head = json.loads(line[len(_MAGIC) :])
        key, size, digest = head["key"], head["size"], head["sha256"]
        if len(value) != size:
            message = f"its value has {len(value)} bytes instead of {size}"
            raise DamagedFile(message)
        if _digest(key, value) != digest or not _is_whole(head):
            message = "its checksum is wrong"
            raise DamagedFile(message)
    except DamagedFile:
        raise
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        message = "its first line is damaged"
        raise DamagedFile(message) from error
    return key, Versioned(value, str(head.get("version", digest)))


def _is_whole(head: dict[str, Any]) -> bool:
    fields = {name: value for name, value in head.items() if name != "head"}
    if set(fields) == _BEFORE_VERSIONS:
        return "head" not in head
    return head.get("head") == _head_digest(fields)


def _head_digest(fields: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()[:16]


def _digest(key: str, value: bytes) -> str:
    return hashlib.sha256(key.encode() + b"\n" + value).hexdigest()
