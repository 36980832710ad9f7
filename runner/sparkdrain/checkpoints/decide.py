"""What follows from what is in storage. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sparkdrain.checkpoints.paths import Place, Stamp, place_of, place_of_manifest, stamp_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence, Set

    from sparkdrain.checkpoints.manifest import Manifest


def places(names: Iterable[str]) -> list[Place]:
    """The checkpoints whose manifests have these paths, the newest first; the rest is ignored."""
    found = (place_of_manifest(name) for name in names)
    return sorted((place for place in found if place is not None), reverse=True)


def differences(old: Mapping[str, str], new: Mapping[str, str]) -> list[str]:
    """Why a job with the state ``new`` cannot go on with the state ``old``, a line for each reason.

    State that is new is none: it begins empty.
    """
    lines = []
    for name, kept in sorted(old.items()):
        wanted = new.get(name)
        if wanted is None:
            lines.append(f"{name}: was {kept}, and is not there any more")
        elif wanted != kept:
            lines.append(f"{name}: was {kept}, is {wanted}")
    return lines


def missing(manifest: Manifest, listed: Mapping[str, int]) -> list[str]:
    """What is wrong with the files that a checkpoint needs, going by names and sizes only."""
    lines = []
    for path, file in sorted(manifest.entries().items()):
        size = listed.get(path)
        if size is None:
            lines.append(f"{path} is missing")
        elif size != file.size:
            lines.append(f"{path} has {size} bytes instead of {file.size}")
    return lines


def garbage_files(listed: Iterable[str], needed: Set[str], newest: Stamp) -> list[str]:
    """The files that no checkpoint needs or will need.

    An upload for a later checkpoint uses files of the newest checkpoint again, which are needed, or
    files that were uploaded for later checkpoints. So a file that was uploaded for the newest
    checkpoint, or an older one, and is not needed now, will never be needed.

    Args:
        listed: names of all files.
        needed: names of those that the checkpoints need that are kept, the newest among them.
        newest: the newest checkpoint that was published.
    """
    return sorted(
        name
        for name in listed
        if name not in needed and (stamp := stamp_of(name)) is not None and stamp <= newest
    )


def garbage_manifests(listed: Iterable[str], kept: Sequence[Place], newest: Place) -> list[str]:
    """The manifests that are not kept, older than the newest, and parts of them.

    The oldest is first, and is to be removed first: as long as a manifest is there, the folder of
    the one that follows it is not free.
    """
    found = (
        (place, name)
        for name in listed
        if (place := place_of(name)) is not None
        and place <= newest
        and not (place_of_manifest(name) is not None and place in kept)
    )
    return [name for _, name in sorted(found)]
