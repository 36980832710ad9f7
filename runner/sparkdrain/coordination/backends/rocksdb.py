"""A metadata store in a RocksDB database; for one process at a time."""

from __future__ import annotations

import contextlib
import secrets
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rocksdict import Options, Rdict, WriteBatch, WriteOptions
from typing_extensions import override

from sparkdrain import access
from sparkdrain.coordination import backend, on_disk
from sparkdrain.coordination.backend import StoreReach
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
from sparkdrain.errors import BadSetup

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_WRITE_BUFFER: Final = 4 << 20
"""Bytes of rows in memory; RocksDB would take 64 MiB and more. All rows are in its log anyway."""

# Namespaces hold no such byte, so this row sorts before all records and belongs to none.
_FORMAT_ROW: Final = b"\x00format"
_FORMAT: Final = b"sparkdrain-metadata 2"
_WITHOUT_VERSIONS: Final = b"sparkdrain-metadata 1"
_VERSION_BYTES: Final = 16
"""A row's version, in front of its value."""
_LOCKED: Final = ("lock hold by current process", "While lock file")
_DAMAGED: Final = "Corruption"


class Backend(backend.Backend):
    """See ``coordination.backend.Backend``. A place is a directory."""

    place = staticmethod(on_disk.place)
    exists = staticmethod(on_disk.exists)
    prepare = staticmethod(on_disk.prepare)

    @override
    def reach(self, place: str) -> StoreReach:
        return StoreReach.MACHINE

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: dict[str, tuple[RocksDatabase, int]] = {}

    @override
    def open(self, place: str) -> RocksMetadataStore:
        directory = str(Path(place).resolve())
        with self._lock:
            database, handles = self._open.get(directory) or (RocksDatabase(Path(place)), 0)
            self._open[directory] = (database, handles + 1)
        return RocksMetadataStore(database, lambda: self._release(directory))

    def _release(self, directory: str) -> None:
        with self._lock:
            database, handles = self._open.pop(directory)
            if handles > 1:
                self._open[directory] = (database, handles - 1)
            else:
                database.close()


class RocksDatabase:
    """The database itself: open once in a process, shared by all handles of that process."""

    def __init__(self, directory: Path) -> None:
        """Open the database in ``directory``, or begin one there.

        Raises:
            BadSetup: another process has it open, it is damaged, is no metadata store, or cannot
                be made; says which.
        """
        self.directory = directory
        self.lock = threading.Lock()
        try:
            access.prepare(directory, group=False)
            options = Options(raw_mode=True)
            options.set_write_buffer_size(_WRITE_BUFFER)
            self.db: Any = Rdict(str(directory), options=options)
        except Exception as error:
            raise BadSetup(_refusal(directory, str(error))) from error
        self.durable = WriteOptions()
        self.durable.sync = True
        try:
            self._check_format()
        except Exception as error:
            self.close()
            if isinstance(error, BadSetup):
                raise
            raise BadSetup(_refusal(directory, str(error))) from error

    def close(self) -> None:
        """Let other processes in; no handle may be used any more."""
        # All that was written is on disk, or its writer was told that it is not.
        with contextlib.suppress(Exception):
            self.db.close()

    def _check_format(self) -> None:
        found = self.db.get(_FORMAT_ROW)
        if found is None and next(iter(self.db.keys()), None) is None:
            self.db.put(_FORMAT_ROW, _FORMAT, write_opt=self.durable)
        elif found == _WITHOUT_VERSIONS:
            self._give_versions()
        elif found != _FORMAT:
            message = (
                f"The database in {self.directory} is no metadata store, or one of a release that "
                f"this one does not know: its format is {found!r}, not {_FORMAT!r}. Name another "
                "directory."
            )
            raise BadSetup(message)

    def _give_versions(self) -> None:
        """Rewrite the rows of a release before versions, all of them or none."""
        batch = WriteBatch(raw_mode=True)
        batch.put(_FORMAT_ROW, _FORMAT)
        for row, value in self.db.items():
            if row != _FORMAT_ROW:
                batch.put(row, secrets.token_bytes(_VERSION_BYTES) + value)
        self.db.write(batch, write_opt=self.durable)


class RocksMetadataStore(MetadataStore):
    """See ``MetadataStore``. Every record is on disk when a call returns."""

    def __init__(self, database: RocksDatabase, release: Callable[[], object]) -> None:
        """A handle.

        Args:
            database: shared with other handles.
            release: called once, when this handle is closed.
        """
        self._database = database
        self._release = release
        self._handle = Handle(f"The metadata store in {database.directory}")

    @override
    def get(self, namespace: str, key: str) -> Versioned | None:
        row = self._row(namespace, key)
        with self._telling(row):
            return self._read(row)

    @override
    def put(self, namespace: str, key: str, value: bytes, version: str = ANY) -> str | None:
        row = self._row(namespace, key)
        with self._database.lock, self._telling(row):
            if not self._has(row, version):
                return None
            written = secrets.token_bytes(_VERSION_BYTES)
            self._database.db.put(row, written + value, write_opt=self._database.durable)
            return written.hex()

    @override
    def remove(self, namespace: str, key: str, version: str = ANY) -> bool:
        row = self._row(namespace, key)
        with self._database.lock, self._telling(row):
            if not self._has(row, version):
                return False
            self._database.db.delete(row, write_opt=self._database.durable)
            return True

    @override
    def all(
        self, namespace: str, on_corrupt: OnCorrupt = fail, without: Keys = (), prefix: str = ""
    ) -> dict[str, Versioned]:
        space = self._row(namespace, None)
        begin = space + prefix.encode()
        records: dict[str, Versioned] = {}
        try:
            with self._telling(begin):
                for row, value in self._database.db.items(from_key=begin):
                    if not row.startswith(begin):
                        break
                    key = row[len(space) :].decode()
                    if key not in without:
                        records[key] = _versioned(value)
        except CorruptRecord as error:
            # A damaged block hides what lies behind it; what came before is good.
            on_corrupt(error)
        return records

    @override
    def close(self) -> None:
        if self._handle.close():
            self._release()

    def _has(self, row: bytes, version: str) -> bool:
        return version == ANY or version == version_of(self._read(row))

    def _read(self, row: bytes) -> Versioned | None:
        value: bytes | None = self._database.db.get(row)
        return None if value is None else _versioned(value)

    def _row(self, namespace: str, key: str | None) -> bytes:
        self._handle.check(namespace, key)
        return f"{namespace}\x00{key or ''}".encode()

    @contextlib.contextmanager
    def _telling(self, row: bytes) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            if _DAMAGED in str(error):
                message = f"{self._handle.store} is damaged at {row!r}: {error}"
                raise CorruptRecord(message) from error
            message = f"{self._handle.store} cannot be used now: {error}"
            raise StoreDown(message) from error


def _versioned(value: bytes) -> Versioned:
    return Versioned(value[_VERSION_BYTES:], value[:_VERSION_BYTES].hex())


def _refusal(directory: Path, text: str) -> str:
    where = f"The metadata store in {directory}"
    if any(sign in text for sign in _LOCKED):
        return (
            f"{where} is open in another process, and RocksDB is for one at a time. Ask that "
            "process through its job service, or use a store of the kind 'file:' instead."
        )
    if _DAMAGED in text:
        return f"{where} is damaged ({text}). Restore it from a copy, or remove the directory."
    return f"{where} cannot be opened: {text}"
