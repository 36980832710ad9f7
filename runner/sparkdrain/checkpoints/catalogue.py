"""What checkpoints there are in a folder, for people who look."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import unquote

from sparkdrain.checkpoints.decide import missing
from sparkdrain.checkpoints.paths import (
    Paths,
    Place,
    folder_name,
    job_of_manifest,
)
from sparkdrain.checkpoints.publish import read_manifest
from sparkdrain.checkpoints.restore import check
from sparkdrain.errors import CheckpointDamaged, CheckpointTooNew

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sparkdrain.checkpoints.manifest import Manifest
    from sparkdrain.checkpoints.storage import Storage


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
        paths = Paths(directory, job) if job else _of_folder(directory)
        wanted = not job_name or folder_name(job_name) == folder_name(paths.job_name)
        if wanted and number in {None, place.stamp.number}:
            found.append((paths.job_name, place, paths))
    newest_first = sorted(found, key=lambda each: each[1], reverse=True)
    for _, place, paths in sorted(newest_first, key=lambda each: each[0]):
        start = paths.files.removeprefix(directory.rstrip("/")).lstrip("/")
        sizes = {
            path.removeprefix(f"{start}/"): size
            for path, size in listed.items()
            if path.startswith(f"{start}/")
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
            check(storage, found.paths, file)
            read(file.size)
        except CheckpointDamaged as error:
            wrong.append(str(error))
    return tuple(wrong)


def _found(storage: Storage, paths: Paths, place: Place, sizes: dict[str, int]) -> Found:
    try:
        manifest = read_manifest(storage, paths, place)
    except (CheckpointDamaged, CheckpointTooNew) as error:
        return Found(paths, place, None, (str(error),))
    return Found(paths, place, manifest, tuple(missing(manifest, sizes)))


def _of_folder(directory: str) -> Paths:
    root, _, name = directory.rstrip("/").rpartition("/")
    return Paths(root or ".", unquote(name))
