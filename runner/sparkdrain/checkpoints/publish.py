"""Makes a checkpoint the newest one of its job, and finds the newest one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sparkdrain.checkpoints.decide import missing, stamps
from sparkdrain.checkpoints.lease import MARKS
from sparkdrain.checkpoints.manifest import Manifest, decode, encode
from sparkdrain.checkpoints.paths import stamp_of
from sparkdrain.checkpoints.storage import FileMissing, read
from sparkdrain.errors import CheckpointDamaged, CheckpointFailed

if TYPE_CHECKING:
    from sparkdrain.checkpoints.lease import Lease
    from sparkdrain.checkpoints.paths import Paths, Stamp
    from sparkdrain.checkpoints.storage import Storage


def publish(lease: Lease, manifest: Manifest) -> None:
    """Make ``manifest`` the newest checkpoint of its job; again does nothing.

    When it returns, every driver that takes the job over from now on will find it. If it raises
    ``Fenced``, that is open: nothing that depends on the checkpoint may be done by this driver.

    Raises:
        Fenced: another driver has taken the job over.
        CheckpointFailed: storage refuses, or files that were uploaded are not there any more.
    """
    if manifest.epoch != lease.epoch:
        message = f"a manifest of epoch {manifest.epoch} cannot be published by {lease.epoch}"
        raise ValueError(message)
    storage, paths = lease.storage, lease.paths
    lease.check()
    wrong = missing(manifest, storage.list(paths.files))
    if wrong:
        lease.check()  # perhaps somebody else has removed them
        message = (
            f"files of checkpoint {manifest.number} are not what was uploaded to {paths.files}: "
            f"{wrong[0]}" + (f", and {len(wrong) - 1} more" if len(wrong) > 1 else "")
        )
        raise CheckpointFailed(message)
    storage.publish(paths.manifest(manifest.stamp), encode(manifest))
    if paths.mark not in lease.check():
        storage.write(paths.mark, [b"A checkpoint was published here.\n"])


def read_manifest(storage: Storage, paths: Paths, stamp: Stamp) -> Manifest:
    """The manifest of a checkpoint.

    Raises:
        CheckpointDamaged: it is missing, or is not what was written.
        CheckpointTooNew: a newer release wrote it.
        CheckpointFailed: storage refuses.
    """
    path = paths.manifest(stamp)
    manifest = decode(read(storage, path), path)
    if manifest.stamp != stamp:
        message = f"{path} holds the checkpoint {manifest.stamp}: it was renamed or copied"
        raise CheckpointDamaged(message)
    return manifest


def newest(storage: Storage, paths: Paths, number: int | None = None) -> Manifest | None:
    """The newest checkpoint of a job, or the newest with that number; None if there is none.

    A newest one that is damaged is an error, and no older one is taken instead: what it covers may
    have been told to the outside.

    Raises:
        CheckpointDamaged: it is not what was written.
        CheckpointTooNew: a newer release wrote it.
        CheckpointFailed: storage refuses.
    """
    while True:
        found = stamps(storage.list(paths.manifests))
        wanted = [stamp for stamp in found if number is None or stamp.number == number]
        if not wanted:
            return None
        try:
            return read_manifest(storage, paths, wanted[0])
        except FileMissing:
            # A driver that is still at work may have removed it, after it made a newer one.
            if wanted[0] in stamps(storage.list(paths.manifests)):
                raise


def lost(storage: Storage, paths: Paths) -> str | None:
    """What shows that a job without any manifest had a published checkpoint once; None if nothing.

    A job that died before its first checkpoint leaves claims, and files for those that it tried. Of
    a release that left no mark, files for later checkpoints show that there was a first one.

    Raises:
        CheckpointFailed: storage refuses.
    """
    claims = [f"{paths.claims}/{name}" for name in storage.list(paths.claims)]
    if paths.mark in claims:
        return paths.mark
    if claims and all(MARKS in read(storage, claim) for claim in claims):
        return None
    later = (name for name in sorted(storage.list(paths.files)) if _number(name) > 1)
    return next(map(paths.file, later), None)


def _number(name: str) -> int:
    stamp = stamp_of(name)
    return 0 if stamp is None else stamp.number
