"""Publishes checkpoints, and removes what none needs that is kept, while the driver goes on."""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sparkdrain.checkpoints.paths import (
    epoch_of_claim,
    place_of,
    place_of_manifest,
    places,
    stamp_of,
)
from sparkdrain.checkpoints.publish import publish, read_manifest
from sparkdrain.errors import CheckpointDamaged, CheckpointFailed, Fenced

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence, Set

    from sparkdrain.checkpoints.lease import Lease
    from sparkdrain.checkpoints.manifest import Manifest
    from sparkdrain.checkpoints.paths import Place, Stamp

_LOGGER = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PublishResult:
    """How publishing a checkpoint has ended.

    Attributes:
        error: why it is not known to be the newest one; None if it is. ``Fenced`` if the job is not
            ours any more.
    """

    number: int
    error: Exception | None = None


class Publisher:
    """Publishes one checkpoint at a time in a thread, and removes old ones after it.

    Its storage should answer in time, see ``TimedStorage``: then so does this.

    Args:
        kept: how many checkpoints stay.
    """

    def __init__(self, lease: Lease, kept: int) -> None:
        self._lease = lease
        self._kept = kept
        self._needed: dict[Place, frozenset[str]] = {}
        self._begun: int | None = None
        self._ended: PublishResult | None = None
        self._thread: threading.Thread | None = None
        self._has_ended = threading.Event()

    def begin(self, manifest: Manifest) -> None:
        """Publish a checkpoint, as soon as what the last one left to be removed is.

        Raises:
            ValueError: the last one has not ended yet.
        """
        if self._begun is not None and self._ended is None:
            message = f"checkpoint {self._begun} is still being published"
            raise ValueError(message)
        self._begun, self._ended = manifest.number, None
        self._has_ended.clear()
        self._thread = threading.Thread(
            target=self._work, args=(manifest, self._thread), name="publish", daemon=True
        )
        self._thread.start()

    def poll(self) -> PublishResult | None:
        """How the last one has ended, again and again; None if it has not. Never blocks."""
        return self._ended

    def await_end(self, seconds: float) -> None:
        """Wait until the last one has ended, but no longer than that."""
        self._has_ended.wait(seconds)

    def wait(self, seconds: float) -> None:
        """Wait until nothing is left to be published or removed, but no longer than that."""
        if self._thread is not None:
            self._thread.join(seconds)

    def _work(self, manifest: Manifest, before: threading.Thread | None) -> None:
        if before is not None:
            before.join()
        try:
            place = publish(self._lease, manifest)
        except Exception as error:  # noqa: BLE001 (told by poll)
            self._end(PublishResult(manifest.number, error))
            return
        self._end(PublishResult(manifest.number))
        try:
            collect(self._lease, place, self._kept, self._needed)
        except (CheckpointFailed, Fenced) as error:
            _LOGGER.warning("old checkpoints could not be removed: %s", error)

    def _end(self, result: PublishResult) -> None:
        self._ended = result
        self._has_ended.set()


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
