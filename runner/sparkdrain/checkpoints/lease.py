"""Which driver a job belongs to: the one that claimed it last. Time plays no part in it.

The epoch of a claim is a fencing token: a driver with a lower epoch than the newest claim stops.

A claim is a file of its own, so no storage has to create one file exclusively. A driver writes its
claim, then looks for other claims. Two drivers that see each other's claim of one epoch both try
again. So an epoch has one holder, ever.

A driver that lost the job can still write, but nothing it writes is used: the driver looks for
newer claims before and after it publishes. If its last look saw none, then the next driver claims
after that look, and finds what was published when it looks for the newest checkpoint.

Looks may miss what is there, as those of NFS do for some time. On disks, a checkpoint can therefore
be followed by one other only: see ``publish``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from sparkdrain.checkpoints.paths import epoch_of_claim, places
from sparkdrain.checkpoints.storage import FileMissing, read
from sparkdrain.errors import CheckpointFailed, Fenced

if TYPE_CHECKING:
    from sparkdrain.checkpoints.paths import Paths, Place, Stamp
    from sparkdrain.checkpoints.storage import Storage


MARKS: Final = b"A mark is left beside this claim with the first checkpoint.\n"
"""Text in claims of releases that leave such a mark; see ``publish.lost``."""


@dataclass(slots=True)
class CheckpointLine:
    """A driver's end of the line of a job's checkpoints.

    Attributes:
        last: the checkpoint that the next one follows: which the driver published last, or found
            when it took the job; None if there was none.
        tried: manifests that the driver has tried to publish behind ``last``. One that it was told
            is not there may be there.
        is_marked: whether a checkpoint was published in the folder before the driver claimed it.
    """

    last: Place | None = None
    tried: dict[Stamp, bytes] = field(default_factory=dict)
    is_marked: bool = False

    @property
    def position(self) -> int:
        """Where the next checkpoint is to be."""
        return 1 + (0 if self.last is None else self.last.position)

    def follow(self, last: Place | None) -> None:
        """Go on behind that checkpoint."""
        self.last = last
        self.tried.clear()


@dataclass(frozen=True, slots=True)
class Lease:
    """A driver's claim of a job, good until another driver claims it.

    Attributes:
        epoch: greater than that of any driver before; no other driver ever has it.
        token: names this driver.
        line: which checkpoint the driver's next one follows.
    """

    storage: Storage
    paths: Paths
    epoch: int
    token: str
    line: CheckpointLine = field(default_factory=CheckpointLine, compare=False)

    def check(self) -> None:
        """Make sure that the job is still ours.

        Raises:
            Fenced: another driver has claimed it.
            CheckpointFailed: our claim is gone, so files were removed by hand.
        """
        claims = _claims(self.storage, self.paths)
        newer = [name for name, epoch in claims.items() if epoch > self.epoch]
        if newer:
            message = (
                f"the job {self.paths.job_name!r} was taken over by another driver "
                f"({self.paths.claims}/{max(newer)}). This one stops; it has published nothing "
                "since. If you did not start another, give the jobs different names."
            )
            raise Fenced(message)
        if self.paths.claim(self.epoch, self.token) not in {
            f"{self.paths.claims}/{name}" for name in claims
        }:
            message = (
                f"files were removed from {self.paths.folder} while the job was running: its own "
                f"claim, {self.paths.claim(self.epoch, self.token)}, is missing"
            )
            raise CheckpointFailed(message)


def claim(storage: Storage, paths: Paths, token: str, note: str, held: int = 0) -> Lease:
    """Take a job over. From now on, no driver that had it before can publish.

    Args:
        storage: where the job's checkpoints are.
        token: letters and digits that no other driver has, for example a random number.
        note: for people who look at the file: who claims, and when.
        held: the highest epoch of any claim that was there once, and may be gone: with a folder
            that was removed, or behind a backup that was put back. 0 if that is not known.

    Raises:
        CheckpointFailed: the storage refuses.
    """
    published = places(storage.list(paths.manifests))
    epochs = (place.stamp.epoch for place in published)
    epoch = 1 + max((held, *_claims(storage, paths).values(), *epochs))
    while True:
        storage.write(paths.claim(epoch, token), [note.encode(), MARKS])
        others = {
            name: other
            for name, other in _claims(storage, paths).items()
            if other >= epoch and f"{paths.claims}/{name}" != paths.claim(epoch, token)
        }
        if not others:
            marked = is_marked(storage, paths)
            line = CheckpointLine(next(iter(published), None), is_marked=marked)
            return Lease(storage, paths, epoch, token, line)
        # Those who see each other here go on from the same number in the order of their tokens.
        newest = max(epoch, *others.values())
        rivals = sorted(name for name, other in others.items() if other == newest)
        epoch = newest + 1 + sum(name < f"{newest:06d}-{token}" for name in rivals)


def newest_claim(storage: Storage, paths: Paths) -> int:
    """The epoch of the newest claim of a job; 0 if no driver has claimed it.

    Raises:
        CheckpointFailed: the storage refuses.
    """
    return max((0, *_claims(storage, paths).values()))


def is_marked(storage: Storage, paths: Paths) -> bool:
    """Whether a checkpoint was ever published in the job's folder.

    Opens the mark by its name, since looks into folders may be old.

    Raises:
        CheckpointFailed: the storage refuses.
    """
    try:
        read(storage, paths.mark)
    except FileMissing:
        return False
    return True


def _claims(storage: Storage, paths: Paths) -> dict[str, int]:
    epochs = {name: epoch_of_claim(name) for name in storage.list(paths.claims)}
    return {name: epoch for name, epoch in epochs.items() if epoch is not None}
