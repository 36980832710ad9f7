"""Removes what no checkpoint needs that is kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sparkdrain.checkpoints.paths import (
    epoch_of_claim,
    place_of,
    place_of_manifest,
    places,
    stamp_of,
)
from sparkdrain.checkpoints.publish import read_manifest
from sparkdrain.errors import CheckpointDamaged, CheckpointFailed

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence, Set

    from sparkdrain.checkpoints.lease import Lease
    from sparkdrain.checkpoints.paths import Place, Stamp


def collect(
    lease: Lease, newest: Place, kept: int, known: dict[Place, frozenset[str]] | None = None
) -> list[str]:
    """Remove checkpoints older than the newest ``kept``, and files that none of those needs.

    Manifests go first: what is left if this is interrupted is found again the next time.

    Args:
        newest: the checkpoint that it published last.
        kept: how many checkpoints stay, at least 1.
        known: what checkpoints need, which is remembered here from one call to the next.

    Returns:
        The paths that were removed.

    Raises:
        Fenced: the job is not ours any more.
        CheckpointFailed: the storage refuses; or a checkpoint that is kept cannot be read, so what
            it needs is unknown, and nothing was removed.
    """
    storage, paths = lease.storage, lease.paths
    # Listed before the manifests are: a file that appears later is none of ours.
    files = storage.list(paths.files)
    listed = storage.list(paths.manifests)
    keep = [place for place in places(listed) if place <= newest][: max(kept, 1)]
    try:
        needs = {place: _needed(lease, place, known or {}) for place in keep}
    except CheckpointDamaged as error:
        lease.check()  # perhaps another driver has removed it
        message = f"nothing is removed as long as a checkpoint is kept that is damaged: {error}"
        raise CheckpointFailed(message) from error
    if known is not None:
        known.clear()
        known.update(needs)
    needed = frozenset[str]().union(*needs.values())
    manifests = [f"{paths.manifests}/{name}" for name in garbage_manifests(listed, keep, newest)]
    orphans = [paths.file(name) for name in garbage_files(files, needed, newest.stamp)]
    claims = [
        f"{paths.claims}/{name}"
        for name in storage.list(paths.claims)
        if (epoch := epoch_of_claim(name)) is not None and epoch < lease.epoch
    ]
    lease.check()
    for doomed in (manifests, orphans, claims):
        if doomed:
            storage.delete(doomed)
    return manifests + orphans + claims


def _needed(lease: Lease, place: Place, known: dict[Place, frozenset[str]]) -> frozenset[str]:
    needed = known.get(place)
    if needed is None:
        needed = frozenset(read_manifest(lease.storage, lease.paths, place).entries())
    return needed


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
