"""A store that is opened when it is first written to, and deleted when it is closed."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from typing_extensions import override

from timers_state.errors import NotAStore, StoreClosed
from timers_state.store.formats import Seal, read_seal
from timers_state.store.rocks import RocksStore, open_store
from timers_state.store.snapshot import empty_store
from timers_state.store.store import Store, check_mark

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from timers_state.store.rocks import RocksMemory
    from timers_state.store.store import Batch, RowsOf


class RoundStore(Store):
    """A ``Store`` in a directory that must be empty or absent, and is absent after ``close``.

    RocksDB is opened with the first batch that has content. That costs some ten milliseconds and
    files, so a stage without state has no files. The store is of use as long as its process lives.
    What outlives the process is a ``snapshot`` that the caller keeps.

    Args:
        store: the store, if one is open in ``directory`` already.
    """

    def __init__(
        self, directory: Path, memory: RocksMemory | None = None, store: RocksStore | None = None
    ) -> None:
        if store is None and directory.exists():
            _check_empty(directory)
        self._directory = directory
        self._memory = memory
        self._store = store
        self._closed = False
        self._marked_empty = False

    @classmethod
    def take_up(cls, directory: Path, memory: RocksMemory | None = None) -> RoundStore:
        """Goes on with the store in ``directory``, a snapshot or its copy, as if it were its own.

        Raises:
            NotAStore: there is no store.
            StateError: as ``open_store``.
        """
        seal = read_seal(directory)
        if seal is None:
            message = f"there is no store in {directory}"
            raise NotAStore(message)
        if seal == Seal():
            shutil.rmtree(directory)
            return cls(directory, memory)
        return cls(directory, memory, open_store(directory, memory))

    @property
    @override
    def sequence(self) -> int:
        return self._store.sequence if self._store is not None else 0

    @override
    def get(self, row: bytes) -> bytes | None:
        store = self._written()
        return store.get(row) if store is not None else None

    @override
    def multi_get(self, rows: Sequence[bytes]) -> list[bytes | None]:
        store = self._written()
        return store.multi_get(rows) if store is not None else [None] * len(rows)

    @override
    def iterate(self, lower: bytes, upper: bytes) -> Iterator[tuple[bytes, bytes]]:
        store = self._written()
        return store.iterate(lower, upper) if store is not None else iter(())

    @override
    def iterate_rows(self, lower: bytes, upper: bytes) -> Iterator[bytes]:
        store = self._written()
        return store.iterate_rows(lower, upper) if store is not None else iter(())

    @override
    def read_prefixes(self, prefixes: Sequence[bytes], most: int, most_bytes: int) -> list[RowsOf]:
        store = self._written()
        if store is None:
            return [[] for _ in prefixes]
        return store.read_prefixes(prefixes, most, most_bytes)

    @override
    def write(self, batch: Batch) -> None:
        store = self._written()
        if store is None:
            store = self._store = open_store(self._directory, self._memory)
        store.write(batch)

    def mark(self) -> None:
        """See ``Store``; free of charge as long as nothing was written."""
        store = self._written()
        check_mark(self._marked_empty, expected=False)
        if store is None:
            self._marked_empty = True
        else:
            store.mark()

    @override
    def unmark(self) -> None:
        store = self._written()
        self._marked_empty = False
        if store is not None:
            store.unmark()

    @override
    def undo(self) -> None:
        store = self._written()
        if self._marked_empty:
            self._marked_empty = False
            self._delete()
        elif store is not None:
            store.undo()
        else:
            check_mark(marked=False, expected=True)

    def snapshot(self, directory: Path) -> None:
        """See ``Store``; one that nothing was written to makes an empty one."""
        store = self._written()
        check_mark(self._marked_empty, expected=False)
        if store is not None:
            store.snapshot(directory)
        else:
            empty_store(directory)

    def flush(self) -> None:
        """Nothing: the files are deleted by ``close``."""
        self._written()

    def close(self) -> None:
        """Deletes everything."""
        self._closed = True
        self._delete()

    def _delete(self) -> None:
        store, self._store = self._store, None
        if store is not None:
            store.abandon()
        shutil.rmtree(self._directory, ignore_errors=True)

    def _written(self) -> RocksStore | None:
        if self._closed:
            message = f"the store {self._directory} was closed"
            raise StoreClosed(message)
        return self._store


def _check_empty(directory: Path) -> None:
    if not directory.is_dir() or any(directory.iterdir()):
        message = f"{directory} is not empty: a RoundStore deletes its directory"
        raise NotAStore(message)
