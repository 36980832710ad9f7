"""What checkpoints there are in a folder, and what is in them, for people who look."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING
from urllib.parse import unquote

from sparkdrain.checkpoints.manifest import missing
from sparkdrain.checkpoints.paths import Paths, Place, folder_name, job_of_manifest
from sparkdrain.checkpoints.publish import read_manifest
from sparkdrain.checkpoints.restore import checked_chunks, restore
from sparkdrain.errors import CheckpointDamaged, CheckpointTooNew
from sparkdrain.room import room
from timers_state import inspect, open_read_only
from timers_state.store.formats import ROCKS_DIRECTORY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sparkdrain.checkpoints.manifest import Manifest, ShardState
    from sparkdrain.checkpoints.storage import Storage


@dataclass(slots=True)
class StateContent:
    """What there is of one kind of cell or timer of one state.

    Attributes:
        keys: how many.
        rows: how many, of all keys.
        bytes: size of their values.
    """

    keys: int = 0
    rows: int = 0
    bytes: int = 0


@dataclass(frozen=True, slots=True)
class Found:
    """A checkpoint in a folder.

    Attributes:
        place: its name, and its place among the job's checkpoints.
        manifest: what it says of itself; None if that cannot be read.
        wrong: what is wrong with it, a line for each file.
    """

    paths: Paths
    place: Place
    manifest: Manifest | None
    wrong: tuple[str, ...] = ()


def find(
    storage: Storage, directory: str, job_name: str = "", number: int | None = None
) -> Iterator[Found]:
    """The checkpoints in a folder, by job, the newest first; no file of state is read.

    Args:
        directory: what ``--checkpoint_dir`` says, or the folder of one job in it.
        job_name: only of this job.
        number: only those with this number.

    Raises:
        CheckpointFailed: the folder cannot be listed.
    """
    listed = storage.list(directory)
    found = []
    for path in listed:
        is_manifest = job_of_manifest(path)
        if is_manifest is None:
            continue
        job, place = is_manifest
        # Else it is the folder of a job.
        root, _, name = directory.rstrip("/").rpartition("/")
        paths = Paths(directory, job) if job else Paths(root or ".", unquote(name))
        wanted = not job_name or folder_name(job_name) == folder_name(paths.job_name)
        if wanted and number in {None, place.stamp.number}:
            found.append((paths.job_name, place, paths))
    newest_first = sorted(found, key=lambda each: each[1], reverse=True)
    for _, place, paths in sorted(newest_first, key=lambda each: each[0]):
        start = f"{paths.files.removeprefix(directory.rstrip('/')).lstrip('/')}/"
        sizes = {
            path.removeprefix(start): size
            for path, size in listed.items()
            if path.startswith(start)
        }
        yield _found(storage, paths, place, sizes)


def verify(storage: Storage, found: Found, read: Callable[[int], None]) -> tuple[str, ...]:
    """Read every byte that a checkpoint needs; what is wrong, a line for each file.

    Args:
        read: hears of the size of each file that is well.

    Raises:
        CheckpointFailed: the storage refuses.
    """
    if found.manifest is None:
        return found.wrong
    wrong = []
    for _, file in sorted(found.manifest.entries().items()):
        try:
            for _ in checked_chunks(storage, found.paths, file):
                pass
            read(file.size)
        except CheckpointDamaged as error:
            wrong.append(str(error))
    return tuple(wrong)


def contents(
    storage: Storage, paths: Paths, shard: ShardState
) -> dict[tuple[int, str, bytes], StateContent]:
    """What a slot's state has, by state id, kind, and tag or timer family.

    Takes as much room among temporary files as the state, and memory for none of its keys.

    Raises:
        CheckpointDamaged: a file is missing, or is not what was written.
        CheckpointFailed: storage or disk refuse.
        StateError: the store cannot be read.
    """
    found: dict[tuple[int, str, bytes], StateContent] = {}
    last: dict[tuple[int, str, bytes], bytes] = {}
    with TemporaryDirectory(prefix="contents-", dir=room()) as directory:
        restore(storage, paths, shard, Path(directory) / "store")
        if not (Path(directory) / "store" / ROCKS_DIRECTORY).exists():
            return {}  # nothing was ever written to it
        store = open_read_only(Path(directory) / "store")
        try:
            for entry in inspect.entries(store):
                name = (entry.state_id, entry.kind, entry.tag)
                content = found.setdefault(name, StateContent())
                content.rows += 1
                content.bytes += entry.size
                if last.get(name) != entry.key:  # rows come in the order of keys
                    content.keys += 1
                    last[name] = entry.key
        finally:
            store.close()
    return found


def _found(storage: Storage, paths: Paths, place: Place, sizes: dict[str, int]) -> Found:
    try:
        manifest = read_manifest(storage, paths, place)
    except (CheckpointDamaged, CheckpointTooNew) as error:
        return Found(paths, place, None, (str(error),))
    return Found(paths, place, manifest, tuple(missing(manifest, sizes)))
