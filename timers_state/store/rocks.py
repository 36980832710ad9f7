"""The store on disk: RocksDB, one column family, no write-ahead log.

Why one column family: a batch must be there as a whole after a crash. RocksDB flushes one family at
a time when it is asked to, even with its atomic flush option (measured with rocksdict 0.3.29), so
families could come back from different moments. Why no log: every batch carries its number, so what
a crash leaves is a known, complete prefix of the batches, and the caller knows which one it needs.
"""

from __future__ import annotations

import os
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakSet

from rocksdict import (
    AccessType,
    BlockBasedIndexType,
    BlockBasedOptions,
    Cache,
    DBCompactionStyle,
    DBCompressionType,
    Options,
    Rdict,
    ReadOptions,
    UniversalCompactOptions,
    WriteBatch,
    WriteBufferManager,
    WriteOptions,
)
from typing_extensions import override

from timers_state.errors import (
    FormatTooOld,
    NotAStore,
    StateError,
    StoreClosed,
    StoreCorrupt,
    StoreFailed,
    failure,
)
from timers_state.keys import SEQUENCE_ROW, decode_sequence, encode_sequence, prefix_end
from timers_state.store.cursor import Cursor, ItemCursor, ManyGone, Prefixes, Rows
from timers_state.store.formats import (
    FORMAT,
    MIGRATIONS,
    ROCKS_DIRECTORY,
    Seal,
    check_files,
    read_seal,
    seal_of,
    steps_from,
    write_seal,
)
from timers_state.store.snapshot import drop_undo_point, go_back, link_store, make_undo_point
from timers_state.store.store import (
    DELETE,
    PUT,
    Batch,
    Store,
    check_mark,
    check_sequence,
    rows_within,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from timers_state.store.formats import Migration
    from timers_state.store.store import RowsOf

MEBIBYTE: Final = 1 << 20
# How many sorted runs of tables there may be before some are merged: every read asks all of them.
_MOST_RUNS: Final = 8
# How much there may be besides the oldest run, in percent of it, before all are merged.
_MOST_OUTDATED: Final = 60
# How many removed rows are passed over at a time where reading has no bound; a million took 35 ms.
_MOST_GONE: Final = 64
# What RocksDB writes down about its files, before it begins anew: some 150 bytes a table. A store
# of so many that it does not fit begins anew with every change, which costs less than a snapshot.
_MANIFEST_BYTES: Final = 32 << 10
# What it writes down for people; the file before is kept too.
_LOG_BYTES: Final = 256 << 10


class RocksMemory:
    """What all stores that share it may hold in memory: a block cache and write buffers.

    ``cache_bytes`` bounds blocks, indexes and filters that were read; ``write_bytes`` what was
    written and is not on disk yet (RocksDB writes it out when it is exceeded).

    One store writes out two thirds of ``write_bytes`` at a time. What a snapshot has written should
    be one table: a store with more tables merges them more often, and all of that is uploaded.
    """

    def __init__(self, cache_bytes: int = 64 * MEBIBYTE, write_bytes: int = 96 * MEBIBYTE) -> None:
        self._cache = Cache(cache_bytes)
        self._writes = WriteBufferManager(write_bytes, False)
        self._buffer_bytes = max(MEBIBYTE, write_bytes * 2 // 3)

    def options(self) -> Options:
        """RocksDB options that draw on this memory."""
        table = BlockBasedOptions()
        table.set_block_cache(self._cache)
        table.set_bloom_filter(10, False)
        table.set_cache_index_and_filter_blocks(True)
        table.set_pin_l0_filter_and_index_blocks_in_cache(True)
        # In parts, each as small as a block of data. What is for a whole file does not fit into a
        # shard of the cache, and would be read from the file for every row that is looked for.
        table.set_index_type(BlockBasedIndexType.two_level_index_search())
        table.set_partition_filters(True)
        table.set_pin_top_level_index_and_filter(True)
        table.set_format_version(5)
        options = Options(raw_mode=True)
        options.set_block_based_table_factory(table)
        options.set_write_buffer_manager(self._writes)
        options.set_write_buffer_size(self._buffer_bytes)
        options.set_compression_type(DBCompressionType.lz4())
        _merge_late(options)
        options.set_paranoid_checks(True)
        options.set_max_background_jobs(2)
        # Else both grow with every snapshot for as long as the job runs, and the manifest is a part
        # of each.
        options.set_max_manifest_file_size(_MANIFEST_BYTES)
        options.set_max_log_file_size(_LOG_BYTES)
        options.set_keep_log_file_num(2)
        options.set_stats_dump_period_sec(0)
        options.set_stats_persist_period_sec(0)
        return options


def _merge_late(options: Options) -> None:
    """Has tables merged with others of about their size, and with all of them only rarely.

    By levels, every fourth write-out would merge with a good part of what there is, and what is
    merged is uploaded again. This way it is some three to five times what has changed.
    """
    merging = UniversalCompactOptions()
    merging.max_size_amplification_percent = _MOST_OUTDATED
    options.set_compaction_style(DBCompactionStyle.universal())
    options.set_universal_compaction_options(merging)
    options.set_level_zero_file_num_compaction_trigger(_MOST_RUNS)


def process_memory() -> RocksMemory:
    """The memory that stores of this process share unless told otherwise; a fork gets its own."""
    return _memory_of(os.getpid())


@lru_cache(maxsize=1)
def _memory_of(pid: int) -> RocksMemory:
    return RocksMemory()


class RocksStore(Store):
    """A ``Store`` in a directory of its own. It must not be carried across a fork."""

    def __init__(
        self,
        directory: Path,
        seal: Seal,
        memory: RocksMemory,
        *,
        writable: bool,
        create: bool = False,
    ) -> None:
        self._directory = directory
        self._memory = memory
        self._db: Any = None
        self._writable = writable
        self._no_log = WriteOptions()
        self._no_log.disable_wal = True
        self._cursors: WeakSet[Cursor] = WeakSet()
        self._marked = False
        self._format = seal.format
        self._open(create=create)
        if self._sequence < seal.sequence:
            self.abandon()
            message = (
                f"{directory} is damaged: batch {self._sequence} is the last of the "
                f"{seal.sequence} that were flushed. Restore the store from a copy."
            )
            raise StoreCorrupt(message)

    def _open(self, *, create: bool) -> None:
        options = self._memory.options()
        access = AccessType.read_only(False)
        if self._writable:
            options.create_if_missing(create)
            access = AccessType.read_write()
        rocks = str(self._directory / ROCKS_DIRECTORY)
        try:
            self._db = Rdict(rocks, options, access_type=access)
        except Exception as error:
            raise failure(error, "opened", self._directory) from error
        try:
            stored = self.get(SEQUENCE_ROW)
            self._sequence = decode_sequence(stored) if stored is not None else 0
        except StateError:
            self.abandon()
            raise

    @property
    @override
    def sequence(self) -> int:
        return self._sequence

    @override
    def get(self, row: bytes) -> bytes | None:
        try:
            value: bytes | None = self._db.get(row)
        except Exception as error:
            raise self._failure(error, "read") from error
        return value

    @override
    def multi_get(self, rows: Sequence[bytes]) -> list[bytes | None]:
        try:
            values: list[bytes | None] = self._db.get(list(rows))
        except Exception as error:
            raise self._failure(error, "read") from error
        return values

    @override
    def iterate(self, lower: bytes, upper: bytes) -> Iterator[tuple[bytes, bytes]]:
        if lower >= upper:
            return iter(())
        items = ItemCursor(self._directory, self._native(upper), lower)
        self._cursors.add(items)
        return items

    @override
    def iterate_rows(self, lower: bytes, upper: bytes) -> Iterator[bytes]:
        if lower >= upper:
            return iter(())
        rows = Rows(self._directory, self._native(upper), lower)
        self._cursors.add(rows)
        return rows

    @override
    def read_prefixes(self, prefixes: Sequence[bytes], most: int, most_bytes: int) -> list[RowsOf]:
        options = ReadOptions()
        options.set_max_skippable_internal_keys(_MOST_GONE)
        try:
            native = self._db.iter(options)
        except Exception as error:
            raise self._failure(error, "read") from error
        reading = Prefixes(self._directory, native)
        found = []
        for prefix in prefixes:
            try:
                rows = reading.rows_of(prefix, most, most_bytes)
            except ManyGone:
                bounded = self.iterate(prefix, prefix_end(prefix))
                rows = rows_within(bounded, most, most_bytes)
            found.append(rows)
        return found

    @override
    def write(self, batch: Batch) -> None:
        check_sequence(batch, self._sequence)
        native = WriteBatch(raw_mode=True)
        put = native.put
        for change, row, value in batch.changes:
            if change == PUT:
                put(row, value)
            elif change == DELETE:
                native.delete(row)
            else:
                native.delete_range(row, value)
        put(SEQUENCE_ROW, encode_sequence(batch.sequence))
        self._write(native)
        self._sequence = batch.sequence

    def fill(self, rows: Iterable[tuple[bytes, bytes]], sequence: int) -> None:
        """Takes rows over from other stores, of which none had more than ``sequence`` batches.

        Fastest if they come in order. Only for a store that nothing was written to, else
        ValueError. If it raises, the store is not to be used.
        """
        if self._sequence or sequence < 1:
            message = f"{self._directory} cannot be filled as if by batch {sequence}"
            raise ValueError(message)
        native = WriteBatch(raw_mode=True)
        for row, value in rows:
            native.put(row, value)
            if native.size_in_bytes() > MEBIBYTE:
                self._write(native)
                native = WriteBatch(raw_mode=True)
        native.put(SEQUENCE_ROW, encode_sequence(sequence))
        self._write(native)
        self._sequence = sequence

    def mark(self) -> None:
        """See ``Store``. Links files, after writing out what is in memory: some 20 ms."""
        self._check_writable()
        check_mark(self._marked, expected=False)
        try:
            make_undo_point(self._db, self._directory, self._sequence, self._format)
        except Exception as error:
            raise self._failure(error, "marked") from error
        self._marked = True

    @override
    def unmark(self) -> None:
        if self._marked:
            drop_undo_point(self._directory)
            self._marked = False

    def undo(self) -> None:
        """See ``Store``. If it raises, the store is closed."""
        check_mark(self._marked, expected=True)
        self.abandon()
        try:
            go_back(self._directory)
        except OSError as error:
            raise self._failure(error, "taken back to its undo point") from error
        self._open(create=False)
        self._marked = False

    def migrate(self, migrations: Mapping[int, Migration]) -> None:
        """Brings the store to this release's format. If it raises, it is closed, and as it was.

        Raises:
            FormatTooOld: ``migrations`` lacks a step.
        """
        try:
            steps = steps_from(self._format, migrations, self._directory)
            if not steps:
                return
            self.mark()
            try:
                for step in steps:
                    step(self)
            except BaseException:
                self.undo()
                raise
            self._format = FORMAT
            self.flush()
            self.unmark()
        except BaseException:
            self.abandon()
            raise

    def snapshot(self, directory: Path) -> None:
        """See ``Store``. Links files, after writing out what is in memory: some 20 ms."""
        check_mark(self._marked, expected=False)
        self._check_writable()
        try:
            link_store(self._db, directory, self._sequence)
        except StateError:
            raise
        except Exception as error:
            raise self._failure(error, f"linked into {directory}") from error

    @override
    def flush(self) -> None:
        try:
            self._db.flush(True)
        except Exception as error:
            raise self._failure(error, "flushed") from error
        write_seal(self._directory, seal_of(self._directory, self._sequence, self._format))

    def close(self) -> None:
        """See ``Store``. Iterators that are still open raise ``StoreClosed`` from now on."""
        if self._db is None:
            return
        try:
            if self._writable:
                self.flush()
        finally:
            self.abandon()

    def abandon(self) -> None:
        """Closes without a promise: what was not flushed may be lost. For stores to be deleted."""
        if self._db is None:
            return
        for cursor in list(self._cursors):
            cursor.release()
        db, self._db = self._db, None
        try:
            db.close()
        except Exception as error:
            raise self._failure(error, "closed") from error

    def _write(self, native: WriteBatch) -> None:
        self._check_writable()
        try:
            self._db.write(native, self._no_log)
        except Exception as error:
            raise self._failure(error, "written") from error

    def _check_writable(self) -> None:
        if not self._writable:
            message = f"the store {self._directory} was opened for reading only"
            raise StoreFailed(message)

    def _failure(self, error: Exception, what: str) -> StateError:
        if self._db is None:
            return StoreClosed(f"the store {self._directory} was closed")
        return failure(error, what, self._directory)

    def _native(self, upper: bytes) -> tuple[Any, bytes]:
        options = ReadOptions()
        options.set_iterate_upper_bound(upper)
        try:
            return self._db.iter(options), upper
        except Exception as error:
            raise self._failure(error, "read") from error


def open_store(
    directory: Path,
    memory: RocksMemory | None = None,
    migrations: Mapping[int, Migration] = MIGRATIONS,
) -> RocksStore:
    """Opens the store in ``directory`` for reading and writing, or makes one if it is empty.

    If a process ended between ``mark`` and ``unmark``, the store is as it was marked. One of an
    older format is brought to this release's first: as a whole, or not at all.

    Raises:
        FormatTooOld: no migration leads from its format.
        StoreLocked: it is open elsewhere.
        StoreCorrupt: files are missing, truncated or damaged.
        FormatTooNew: a newer release wrote it.
        NotAStore: the directory holds other things.
        StoreFailed: the system refuses.
    """
    _finish_undo(directory)
    seal = read_seal(directory)
    if seal is None:
        try:
            directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            message = f"the directory {directory} cannot be made: {error}"
            raise StoreFailed(message) from error
        seal = Seal()
        write_seal(directory, seal)
    check_files(directory, seal)
    create = not (directory / ROCKS_DIRECTORY / "CURRENT").exists()
    store = RocksStore(directory, seal, memory or process_memory(), writable=True, create=create)
    store.migrate(migrations)
    return store


def open_read_only(directory: Path, memory: RocksMemory | None = None) -> RocksStore:
    """Opens what was last flushed, without a lock and without changing a byte.

    Raises:
        NotAStore: there is no store.
        FormatTooOld: it has an older format, so it would have to be changed.
        StateError: as ``open_store``, but for the lock.
    """
    seal = read_seal(directory)
    if seal is None:
        message = f"there is no store in {directory}"
        raise NotAStore(message)
    if seal.format < FORMAT:
        message = (
            f"{directory} has format {seal.format}, and is only to be read; this release has "
            f"format {FORMAT}. Open it, or a copy of it, for writing first."
        )
        raise FormatTooOld(message)
    check_files(directory, seal)
    return RocksStore(directory, seal, memory or process_memory(), writable=False)


def _finish_undo(directory: Path) -> None:
    try:
        go_back(directory)
    except OSError as error:
        message = f"the store {directory} cannot be taken back to its undo point: {error}"
        raise StoreFailed(message) from error
