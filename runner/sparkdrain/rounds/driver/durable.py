"""A driver's part in checkpoints: takes a job up where it was, and publishes what it has done."""

from __future__ import annotations

import contextlib
import secrets
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sparkdrain import access, nfs
from sparkdrain.checkpoints.beam_storage import storage_at
from sparkdrain.checkpoints.lease import Lease, claim, newest_claim
from sparkdrain.checkpoints.manifest import Manifest, differences
from sparkdrain.checkpoints.paths import Paths
from sparkdrain.checkpoints.publish import lost, newest, take_up
from sparkdrain.checkpoints.publisher import Publisher
from sparkdrain.checkpoints.storage import TimedStorage
from sparkdrain.errors import CheckpointDamaged, CheckpointFailed, CheckpointRefused
from sparkdrain.graph.identity import without_classes
from sparkdrain.rounds.driver.inheritances import DriverState, inheritances, shards_of
from sparkdrain.rounds.driver.lease_watch import LeaseWatch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from apache_beam.options.pipeline_options import PipelineOptions

    from sparkdrain.checkpoints.storage import Storage
    from sparkdrain.drain.phases import DrainPhase
    from sparkdrain.options import Resume
    from sparkdrain.rounds.driver.checkpoint_flight import Cut
    from sparkdrain.rounds.driver.loop import Play
    from sparkdrain.rounds.driver.schedule import Schedule
    from sparkdrain.types import CancelToken

_SHOWN_DIFFERENCES = 10
_UNREACHED: Final = (
    "The job has not begun, and nothing is changed. See that --checkpoint_dir can be reached from "
    "here with the options that it needs (such as --s3_endpoint_url), and start the job again."
)
_UNWRITTEN: Final = (
    "The job has not begun. See that the bucket or folder of --checkpoint_dir is there, since a "
    "bucket that is missing looks like an empty one, and that this user may write to it. Then "
    "start the job again."
)
# Part of the identity of jobs in checkpoints that were made before jobs could have other slots.
_SLOTS = "slots"
# Each call of the storage ends in time; a publication has some of them. Seconds.
_PATIENCE: Final = 300.0
# How long the next round waits for a publication that the job waits for; seconds.
_MOMENT: Final = 0.25


@dataclass(slots=True)
class DurableJob:
    """A job whose state is kept in storage, as its driver knows it.

    Attributes:
        identity: what must not change, see ``graph.identity``.
        slots: per level.
        kept: how many checkpoints stay.
        held: the highest epoch of any claim that was there once; 0 if that is not known.
        clock: microseconds since 1970.
        number: the newest checkpoint that is known to be published.
    """

    storage: Storage
    paths: Paths
    run_id: str
    identity: Mapping[str, str]
    slots: int
    kept: int
    held: int = 0
    clock: Callable[[], int] = field(default=lambda: time.time_ns() // 1000)
    number: int = 0
    _lease: Lease | None = None
    _publisher: Publisher | None = None

    @staticmethod
    def at(
        root: str,
        job_name: str,
        run_id: str,
        identity: Mapping[str, str],
        slots: int,
        kept: int,
        options: PipelineOptions | None = None,
        held: int = 0,
    ) -> DurableJob:
        """The job of that name below ``root``, a path of any of Beam's file systems."""
        storage = TimedStorage(storage_at(root, options))
        return DurableJob(storage, Paths(root, job_name), run_id, identity, slots, kept, held)

    @property
    def epoch(self) -> int:
        """The epoch of this driver's claim; 0 before it has taken the job."""
        return 0 if self._lease is None else self._lease.epoch

    def claimed(self) -> int:
        """The epoch of the newest claim of any driver; 0 if there is none.

        Raises:
            CheckpointFailed: the storage refuses.
        """
        return newest_claim(self.storage, self.paths)

    def check(self, *, resume: Resume) -> bool:
        """Return if the job can begin, or go on if ``resume``; nothing is changed.

        Returns:
            Whether there is a checkpoint.

        Raises:
            CheckpointRefused: there is a checkpoint and ``resume`` is not given, or it is of
                a job that cannot go on here, or of a release that kept other things; says what
                differs.
            CheckpointFailed: the storage refuses.
        """
        try:
            found = newest(self.storage, self.paths)
        except CheckpointFailed as error:
            message = f"{error}. {_UNREACHED}"
            raise CheckpointFailed(message) from error
        if found is None:
            self._check_beginning(resume)
            return False
        if DriverState.of(found).phase.is_over and not resume:
            return True
        if not resume:
            message = (
                f"{self.paths.folder} has checkpoint {found.number} of this job. Give --resume to "
                "go on from there; to begin anew, give another --job_name or --checkpoint_dir, or "
                "remove that folder."
            )
            raise CheckpointRefused(message)
        self._check_same(found)
        return True

    def _check_beginning(self, resume: Resume) -> None:
        """There is no checkpoint. A user who asked for one must not begin anew without knowing."""
        if not resume:
            return
        folder, shows = self.paths.folder, lost(self.storage, self.paths)
        if shows is not None:
            shows = f"{shows} is there"
        elif self.claimed() < self.held:
            shows = f"the metadata store knows of a run that has claimed it under epoch {self.held}"
        if shows is not None:
            message = (
                f"{folder} has no checkpoint to resume from, but the job seems to have had one: "
                f"{shows}. Its manifests were removed, or are not mounted: bring them back. If "
                "what the job knew may be lost, begin anew without --resume, or with another "
                "--job_name or --checkpoint_dir; then sources are read from where they begin."
            )
            raise CheckpointRefused(message)
        if resume == "required":
            message = (
                f"{folder} has no checkpoint, and --resume=required does not begin without one. Is "
                "the right --checkpoint_dir mounted, and is it the right --job_name? For the job's "
                "first start, give --resume."
            )
            raise CheckpointRefused(message)

    def keep_to(self, *, group: bool) -> Iterator[str]:
        """Make the job's folder for this user, or its group too, if it is one of this machine.

        Returns:
            What is wrong with who may change it, and with how it is mounted; a text each.

        Raises:
            CheckpointFailed: the folder cannot be made.
        """
        if "://" in self.paths.root:
            return
        try:
            access.prepare(Path(self.paths.folder), group=group)
            for folder in (self.paths.root, self.paths.folder):
                yield from access.complaints(Path(folder), group=group)
            if told := nfs.warning("--checkpoint_dir", Path(self.paths.folder)):
                yield told
        except OSError as error:
            message = f"{self.paths.folder} cannot be used: {error}"
            raise CheckpointFailed(message) from error

    def _check_same(self, found: Manifest) -> None:
        kept = {name: text for name, text in found.fingerprint.items() if name != _SLOTS}
        wanted = {
            name: older if (older := without_classes(text)) == kept.get(name) else text
            for name, text in self.identity.items()
        }
        lines = differences(kept, wanted)
        if lines:
            more = len(lines) - _SHOWN_DIFFERENCES
            shown = "\n  ".join(lines[:_SHOWN_DIFFERENCES] + [f"and {more} more"] * (more > 0))
            message = (
                f"This pipeline cannot go on from checkpoint {found.number} in "
                f"{self.paths.folder}, which is of another one:\n  {shown}\nRun the pipeline that "
                "it is of to its end, or begin anew with another --job_name."
            )
            raise CheckpointRefused(message)

    def take(self, *, resume: Resume) -> Manifest | None:
        """Take the job from whichever driver had it; what to go on from, if there is anything.

        A run that came to its end is gone on from only if ``resume``: then nothing is left to do.

        Raises:
            CheckpointRefused: see ``check``.
            CheckpointFailed: the storage refuses, or it is a bucket that is not there. Beam lists
                such a bucket as an empty one.
        """
        self.settle()
        is_first = self._lease is None
        token = secrets.token_hex(8)
        try:
            self._lease = claim(self.storage, self.paths, token, f"run {self.run_id}\n", self.held)
        except CheckpointFailed as error:
            if not is_first:
                raise
            message = f"{error}. {_UNWRITTEN}"
            raise CheckpointFailed(message) from error
        self._publisher = Publisher(self._lease, self.kept)
        with self.ours():
            found = take_up(self._lease)
        if found is None and self.number:
            self._check_beginning("required")
        elif found is None and is_first:
            self._check_beginning(resume)
        self.number = 0 if found is None else found.number
        if found is None:
            return None
        if DriverState.of(found).phase.is_over and found.run_id != self.run_id and not resume:
            return None
        self._check_same(found)
        return found

    def watch(self, outer: CancelToken) -> LeaseWatch:
        """Looks whether the job is still this driver's, as long as the context is open."""
        assert self._lease is not None, "take the job first"
        return LeaseWatch(self._lease.check, outer, self.paths.folder)

    @contextlib.contextmanager
    def ours(self) -> Iterator[None]:
        """Checks, if a checkpoint is found damaged in here, whether the job is still this driver's.

        Another driver that has the job now removes files that it does not need. The user must not
        be told of damage then.

        Raises:
            Fenced: another driver has the job.
            CheckpointFailed: our claim was removed, too.
            CheckpointDamaged: this driver has the job; the error as it was raised.
        """
        try:
            yield
        except CheckpointDamaged:
            if self._lease is not None:
                self._lease.check()
            raise

    def publish(self, cut: Cut) -> None:
        """Begin to make a complete checkpoint the newest one, and to remove those too many.

        Waits a moment for a checkpoint that the job waits for: a round takes longer than a disk.
        """
        assert self._lease is not None, "take the job first"
        assert self._publisher is not None
        manifest = Manifest(
            self.paths.job_name,
            self.run_id,
            self._lease.epoch,
            cut.number,
            cut.round,
            self.clock(),
            dict(self.identity),
            self.slots,
            shards_of(cut),
            DriverState(cut.play, cut.phase, cut.drain).encode(),
        )
        self._publisher.begin(manifest)
        if cut.is_awaited:
            self._publisher.await_end(_MOMENT)

    def is_published(self) -> bool:
        """Whether the last checkpoint is the newest one now.

        Raises:
            Fenced: the job belongs to another driver now.
            CheckpointFailed: the storage refuses.
        """
        assert self._publisher is not None, "take the job first"
        ended = self._publisher.poll()
        if ended is not None and ended.error is not None:
            raise ended.error
        if ended is not None:
            self.number = ended.number
        return ended is not None

    def settle(self) -> None:
        """Wait until nothing is left to be published or removed."""
        if self._publisher is not None:
            self._publisher.wait(_PATIENCE)


def go_on(manifest: Manifest, schedule: Schedule, play: Play) -> DrainPhase:
    """Bring a driver's knowledge to where a checkpoint is, which may have other slots.

    Returns:
        How far the job was when its driver began the checkpoint.

    Raises:
        CheckpointFailed: the checkpoint cannot be understood.
    """
    inherited = inheritances(manifest.shards, manifest.slots, schedule.slots)
    schedule.restore(manifest.round, inherited)
    state = DriverState.of(manifest)
    play.go_to(state.play)
    return state.phase
