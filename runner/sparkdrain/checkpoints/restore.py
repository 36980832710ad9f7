"""Brings a slot's state back from storage, checking every byte on the way."""

from __future__ import annotations

import hashlib
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Final

from sparkdrain.errors import CheckpointDamaged, CheckpointFailed

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from sparkdrain.checkpoints.manifest import FileEntry, ShardState
    from sparkdrain.checkpoints.paths import Paths
    from sparkdrain.checkpoints.storage import Storage

_THREADS: Final = 4


def restore(storage: Storage, paths: Paths, shard: ShardState, directory: Path) -> None:
    """Make ``directory``, which must not be there, the store that a slot had.

    Raises:
        CheckpointDamaged: a file is missing in storage, or is not what was written; names it.
        CheckpointFailed: storage or disk refuse. Either way, nothing is left.
    """
    try:
        directory.mkdir(parents=True)
    except OSError as error:
        raise _refused(directory, error) from error
    try:
        _fetch_all(storage, paths, shard, directory)
    except OSError as error:
        shutil.rmtree(directory, ignore_errors=True)
        raise _refused(directory, error) from error
    except BaseException:
        shutil.rmtree(directory, ignore_errors=True)
        raise


def check(storage: Storage, paths: Paths, file: FileEntry) -> None:
    """Read a file in storage and compare it with what was written.

    Raises:
        CheckpointDamaged: it is missing or another.
    """
    for _ in _checked(storage, paths, file):
        pass


def _refused(directory: Path, error: OSError) -> CheckpointFailed:
    return CheckpointFailed(f"the checkpoint cannot be restored into {directory}: {error}")


def _fetch_all(storage: Storage, paths: Paths, shard: ShardState, directory: Path) -> None:
    # The largest first, so that no thread is left alone with it at the end.
    files = sorted(shard.files, key=lambda file: -file.size)
    with ThreadPoolExecutor(_THREADS) as threads:
        try:
            list(threads.map(lambda file: _fetch(storage, paths, file, directory), files))
        except BaseException:
            threads.shutdown(wait=False, cancel_futures=True)
            raise


def _fetch(storage: Storage, paths: Paths, file: FileEntry, directory: Path) -> None:
    name = PurePosixPath(file.name)
    if name.is_absolute() or ".." in name.parts:
        message = f"a manifest names the file {file.name!r}, which is not in a store's directory"
        raise CheckpointDamaged(message)
    path = directory / name
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("xb") as target:
        for chunk in _checked(storage, paths, file):
            target.write(chunk)


def _checked(storage: Storage, paths: Paths, file: FileEntry) -> Iterator[bytes]:
    if not file.path:
        return
    path = paths.file(file.path)
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
