"""Brings a slot's state back from storage, checking every byte on the way."""

from __future__ import annotations

import hashlib
import shutil
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import PurePosixPath
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Final

from sparkdrain.checkpoints.reasons import tried_again
from sparkdrain.errors import CheckpointDamaged, CheckpointFailed
from sparkdrain.local_state.files import FileContent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from sparkdrain.checkpoints.manifest import FileEntry, ShardState
    from sparkdrain.checkpoints.paths import Paths
    from sparkdrain.checkpoints.storage import Storage
    from sparkdrain.local_state.slot_files import SlotFiles

_THREADS: Final = 4
_TABLE: Final = ".sst"
STALL_SECONDS: Final = 120.0
"""How long the storage may not move at all, before a restore fails."""


@dataclass(frozen=True, slots=True)
class Restored:
    """Where the bytes of a store came from.

    Attributes:
        local_bytes: this host had them.
        fetched_bytes: read from storage.
    """

    local_bytes: int = 0
    fetched_bytes: int = 0

    def __add__(self, other: Restored) -> Restored:
        return Restored(
            self.local_bytes + other.local_bytes, self.fetched_bytes + other.fetched_bytes
        )


def restore(
    storage: Storage,
    paths: Paths,
    shard: ShardState,
    directory: Path,
    nearby: SlotFiles | None = None,
    *,
    stall_seconds: float = STALL_SECONDS,
    clock: Callable[[], float] = time.monotonic,
) -> Restored:
    """Make ``directory``, which must not be there, the store that a slot had.

    Args:
        nearby: has files that need not be fetched, or not all of them.
        stall_seconds: how long the storage may not move.

    Returns:
        Where its bytes came from.

    Raises:
        CheckpointDamaged: a file is missing in storage, or is not what was written; names it.
        CheckpointFailed: storage or disk refuse, or the storage hangs. In any case, nothing is
            left, but for what a storage that hangs may bring later.
    """
    try:
        directory.mkdir(parents=True)
        try:
            return _Fetching(storage, paths, shard, directory, nearby, clock).run(stall_seconds)
        except BaseException:
            shutil.rmtree(directory, ignore_errors=True)
            raise
    except OSError as error:
        message = f"the checkpoint cannot be restored into {directory}: {error}"
        raise CheckpointFailed(message) from error


class _GivenUp(Exception):
    """No thread is to go on."""


class _Fetching:
    """Some threads that fetch files, until there are none left or one has failed."""

    def __init__(
        self,
        storage: Storage,
        paths: Paths,
        shard: ShardState,
        directory: Path,
        nearby: SlotFiles | None,
        clock: Callable[[], float],
    ) -> None:
        self._storage = storage
        self._paths = paths
        self._directory = directory
        self._nearby = nearby
        self._clock = clock
        self._files: SimpleQueue[FileEntry] = SimpleQueue()
        # The largest first, so that no thread is left alone with it at the end.
        for file in sorted(shard.files, key=lambda file: -file.size):
            self._files.put(file)
        self._ends: SimpleQueue[Restored | BaseException] = SimpleQueue()
        self._moved = clock()
        self._stopped = False

    def run(self, stall_seconds: float) -> Restored:
        # Daemons: no process waits for a storage that hangs.
        threads = [threading.Thread(target=self._work, daemon=True) for _ in range(_THREADS)]
        for thread in threads:
            thread.start()
        restored = Restored()
        try:
            for _ in threads:
                end = self._end(stall_seconds, threads)
                if isinstance(end, BaseException):
                    raise end
                restored += end
        finally:
            self._stopped = True
            for thread in threads:  # so that what is removed stays removed
                thread.join(min(stall_seconds, 5.0))
        return restored

    def _end(
        self, stall_seconds: float, threads: list[threading.Thread]
    ) -> Restored | BaseException:
        """Waits for the end of a thread, as long as any of them gets on."""
        while True:
            try:
                return self._ends.get(timeout=min(stall_seconds, 1.0))
            except Empty:
                still = self._clock() - self._moved
                if still >= stall_seconds:
                    reason = next(filter(None, map(tried_again, threads)), "")
                    message = (
                        f"the storage {self._paths.root} has not moved for {still:.0f} s{reason}"
                    )
                    return CheckpointFailed(message)

    def _work(self) -> None:
        restored = Restored()
        try:
            with suppress(Empty):
                while not self._stopped:
                    restored += self._fetch(self._files.get_nowait())
            self._ends.put(restored)
        except BaseException as error:  # noqa: BLE001 (raised by who waits)
            self._ends.put(error)

    def _fetch(self, file: FileEntry) -> Restored:
        name = PurePosixPath(file.name)
        if name.is_absolute() or ".." in name.parts:
            message = (
                f"a manifest names the file {file.name!r}, which is not in a store's directory"
            )
            raise CheckpointDamaged(message)
        path = self._directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if file.path and self._nearby is not None:
            content = FileContent(file.digest, file.size)
            if self._nearby.give(content, path, self._go_on):
                return Restored(local_bytes=file.size)
        # The store never changes a table, and no process changes one in storage.
        is_final = name.suffix == _TABLE and bool(file.path)
        is_linked = is_final and self._storage.link(self._paths.named_file(file.path), path)
        with path.open("rb" if is_linked else "xb") as target:
            for chunk in checked_chunks(self._storage, self._paths, file):
                self._go_on()
                if not is_linked:
                    target.write(chunk)
        return Restored(fetched_bytes=file.size if file.path else 0)

    def _go_on(self) -> None:
        """Called for each chunk.

        Raises:
            _GivenUp: the restore has failed meanwhile.
        """
        if self._stopped:
            raise _GivenUp
        self._moved = self._clock()


def checked_chunks(storage: Storage, paths: Paths, file: FileEntry) -> Iterator[bytes]:
    """The bytes of a file in storage; nothing of one that is empty.

    Raises:
        CheckpointDamaged: it is missing or another; then all that came before is worth nothing.
        CheckpointFailed: the storage refuses.
    """
    if not file.path:
        return
    path = paths.named_file(file.path)
    summed = hashlib.sha256()
    size = 0
    for chunk in storage.chunks(path):
        summed.update(chunk)
        size += len(chunk)
        yield chunk
    if size != file.size:
        message = f"{path} is damaged: it has {size} bytes, and had {file.size} when it was written"
        raise CheckpointDamaged(message)
    if summed.hexdigest() != file.digest:
        message = f"{path} is damaged: its {size} bytes are not those that were written"
        raise CheckpointDamaged(message)
