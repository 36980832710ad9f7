"""Makes a checkpoint the newest one of its job, and finds the newest one.

A manifest is in a folder of its own, whose name is its position: one more than that of the
checkpoint that it follows. On a disk, only one driver can make that folder. So of two drivers that
go on from one checkpoint, and do not see each other's claims, one publishes and the other is
fenced.

A folder is free again when its manifest was removed. But manifests are removed from the oldest on.
So a driver looks, after it has published, whether the checkpoint that it follows is still there. If
so, no other manifest was in the folder before.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from sparkdrain.checkpoints.lease import MARKS, is_marked
from sparkdrain.checkpoints.manifest import Manifest, decode, encode, missing
from sparkdrain.checkpoints.paths import Place, places, stamp_of
from sparkdrain.checkpoints.storage import AlreadyThere, FileMissing, read
from sparkdrain.errors import CheckpointDamaged, CheckpointFailed, Fenced

if TYPE_CHECKING:
    from sparkdrain.checkpoints.lease import Lease
    from sparkdrain.checkpoints.paths import Paths
    from sparkdrain.checkpoints.storage import Storage


def publish(lease: Lease, manifest: Manifest) -> Place:
    """Make ``manifest`` the newest checkpoint of its job; again does nothing.

    When it returns, every driver that takes the job over from now on will find it. If it raises
    ``Fenced``, that is open: nothing that depends on the checkpoint may be done by this driver.

    Returns:
        Its place among the job's checkpoints.

    Raises:
        Fenced: another driver has taken the job over, or has gone on from the same checkpoint.
        CheckpointFailed: storage refuses, or files that were uploaded are not there any more.
    """
    if manifest.epoch != lease.epoch:
        message = f"a manifest of epoch {manifest.epoch} cannot be published by {lease.epoch}"
        raise ValueError(message)
    storage, paths = lease.storage, lease.paths
    lease.check()
    wrong = missing(manifest, storage.list(paths.files))
    if wrong:
        lease.check()  # perhaps another driver has removed them
        message = (
            f"files of checkpoint {manifest.number} are not what was uploaded to {paths.files}: "
            f"{wrong[0]}" + (f", and {len(wrong) - 1} more" if len(wrong) > 1 else "")
        )
        raise CheckpointFailed(message)
    place = _append(lease, manifest)
    if not lease.line.is_marked:
        storage.write(paths.mark, [b"A checkpoint was published here.\n"])
        lease.line.is_marked = True
    lease.check()  # last: another driver may go on while any request is on its way
    return place


def _append(lease: Lease, manifest: Manifest) -> Place:
    """Puts a manifest behind the checkpoint that the driver published last, or took up."""
    line, data = lease.line, encode(manifest)
    if line.last is not None and line.last.stamp == manifest.stamp:
        return line.last
    line.tried[manifest.stamp] = data
    while True:
        place = Place(line.position, manifest.stamp)
        try:
            lease.storage.publish(lease.paths.manifest(place), data)
        except AlreadyThere as error:
            place = _own(lease, error)
        _check_followed(lease)
        line.last = place
        if place.stamp == manifest.stamp:
            line.follow(place)
            return place


def _own(lease: Lease, error: AlreadyThere) -> Place:
    """The manifest in the next position, if it is one that this driver was told is not there."""
    storage, paths, line = lease.storage, lease.paths, lease.line
    for place in places(storage.list(paths.manifests)):
        if place.position == line.position and (data := line.tried.get(place.stamp)) is not None:
            with suppress(FileMissing):
                if read(storage, paths.manifest(place)) == data:
                    return place
    message = (
        f"the job {paths.job_name!r} was taken over by another driver, which has published "
        f"checkpoint {line.position:09d} in {paths.manifests}: {error}. This one stops; it has "
        "published nothing since. If you did not start another, give the jobs different names."
    )
    raise Fenced(message) from error


def _check_followed(lease: Lease) -> None:
    """Makes sure that the checkpoint is still there that the driver has gone on from."""
    last = lease.line.last
    if last is None:
        _check_first(lease)
        return
    path = lease.paths.manifest(last)
    try:
        read(lease.storage, path)
    except FileMissing:
        lease.check()
        message = (
            f"{path}, from which this driver goes on, is not there any more: another driver has "
            "published newer checkpoints and removed it, or a user has. This driver stops. With "
            "--resume, the job goes on from its newest checkpoint."
        )
        raise Fenced(message) from None


def _check_first(lease: Lease) -> None:
    """Makes sure that no driver has published since this one found nothing in the folder."""
    if lease.line.is_marked or not is_marked(lease.storage, lease.paths):
        return
    lease.check()
    message = (
        f"the job {lease.paths.job_name!r} was taken over by another driver, which has published "
        f"its first checkpoint in {lease.paths.manifests}. This one stops; it has published "
        "nothing. If you did not start another, give the jobs different names."
    )
    raise Fenced(message)


def take_up(lease: Lease) -> Manifest | None:
    """The newest checkpoint of a job that was claimed, which the driver's next one will follow.

    It is durable from now on. Who published it may have died before it was, and have told nothing
    to the outside; this driver will.

    Raises:
        Fenced: it is of a driver that claimed later, or at the same time.
        CheckpointDamaged: it is not what was written.
        CheckpointTooNew: a newer release wrote it.
        CheckpointFailed: storage refuses.
    """
    found = _newest(lease.storage, lease.paths, None)
    place, manifest = (None, None) if found is None else found
    if place is not None and place.stamp.epoch >= lease.epoch:
        lease.check()
        message = (
            f"the job {lease.paths.job_name!r} was taken over by another driver, which has "
            f"published {lease.paths.manifest(place)}. This one stops; it has published nothing."
        )
        raise Fenced(message)
    if place is not None:
        lease.storage.settle(lease.paths.manifest(place))
    lease.line.follow(place)
    return manifest


def read_manifest(storage: Storage, paths: Paths, place: Place) -> Manifest:
    """The manifest of a checkpoint.

    Raises:
        CheckpointDamaged: it is missing, or is not what was written.
        CheckpointTooNew: a newer release wrote it.
        CheckpointFailed: storage refuses.
    """
    path = paths.manifest(place)
    manifest = decode(read(storage, path), path)
    if manifest.stamp != place.stamp:
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
    found = _newest(storage, paths, number)
    return None if found is None else found[1]


def _newest(storage: Storage, paths: Paths, number: int | None) -> tuple[Place, Manifest] | None:
    while True:
        found = places(storage.list(paths.manifests))
        wanted = [place for place in found if number is None or place.stamp.number == number]
        if not wanted:
            return None
        _check_of_older_release(paths, found)
        try:
            return wanted[0], read_manifest(storage, paths, wanted[0])
        except FileMissing:
            # A driver that is still at work may have removed it, after it made a newer one.
            if wanted[0] in places(storage.list(paths.manifests)):
                raise


def _check_of_older_release(paths: Paths, found: list[Place]) -> None:
    """An older release does not see what this one publishes, and may have begun the job anew."""
    older = [place for place in found if not place.position]
    if found[0].position and older and older[0].stamp.epoch > found[0].stamp.epoch:
        message = (
            f"{paths.manifests} has {found[0]}.manifest, and {older[0]}.manifest, which an older "
            "release has published later: it began the job anew. Remove the one that the job is "
            "not to go on from, and all others of its kind."
        )
        raise CheckpointDamaged(message)


def lost(storage: Storage, paths: Paths) -> str | None:
    """What shows that a job without any manifest had a published checkpoint once; None if nothing.

    A job that died before its first checkpoint leaves claims, and files for those that it tried. Of
    a release that left no mark, files for later checkpoints show that there was a first one.

    Raises:
        CheckpointFailed: storage refuses.
    """
    if is_marked(storage, paths):
        return paths.mark
    claims = [f"{paths.claims}/{name}" for name in storage.list(paths.claims)]
    if claims and all(_leaves_mark(storage, claim) for claim in claims):
        return None
    for name in sorted(storage.list(paths.files)):
        stamp = stamp_of(name)
        if stamp is not None and stamp.number > 1:
            return paths.file(name)
    return None


def _leaves_mark(storage: Storage, claim: str) -> bool:
    try:
        return MARKS in read(storage, claim)
    except FileMissing:
        return True  # the driver that has the job now removed it, and fences this one
