"""How a slot comes to life in a process: empty, or with the state that a checkpoint has of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sparkdrain.checkpoints.beam_storage import storage_at
from sparkdrain.checkpoints.destination import Destination
from sparkdrain.checkpoints.upload import Uploader
from sparkdrain.rounds.slots.slot import RoundSlot, state_directory
from sparkdrain.rounds.slots.take_over import take_over
from sparkdrain.rounds.slots.uploads import SlotUploads

if TYPE_CHECKING:
    from pathlib import Path

    from sparkdrain.checkpoints.manifest import FileEntry
    from sparkdrain.checkpoints.paths import Paths
    from sparkdrain.fnapi.harness import Outside
    from sparkdrain.graph.plan import Plan
    from sparkdrain.rounds.messages import RoundHeader
    from sparkdrain.shuffle.outbox import ShuffleLayout
    from sparkdrain.stages.shards.task_options import TaskOptions


@dataclass(frozen=True, slots=True)
class CheckpointPlace:
    """Where the checkpoints of a job go.

    Attributes:
        paths: of the job.
        epoch: of its driver.
    """

    paths: Paths
    epoch: int


def open_slot(
    plan: Plan,
    header: RoundHeader,
    layout: ShuffleLayout,
    options: TaskOptions,
    directory: Path,
    place: CheckpointPlace | None,
    outside: Outside | None = None,
) -> RoundSlot:
    """The slot that is to run the round of ``header``, in a process that did not have it.

    Raises:
        CheckpointFailed: its state cannot be fetched.
        CheckpointDamaged: its state in storage is not what was written.
        CheckpointRefused: there were other slots, and some state cannot be moved to these.
    """
    level, slot, inheritance = header.level, header.slot, header.restore
    if place is None:
        return RoundSlot(plan, level, slot, layout, options, directory, outside=outside)
    storage = storage_at(place.paths.root)
    files: tuple[FileEntry, ...] = ()
    if inheritance is not None:
        where = state_directory(directory, level)
        take_over(plan, inheritance, layout.slots, storage, place.paths, where)
        files = inheritance.files(layout.slots)
    uploader = Uploader(Destination(storage, place.paths, place.epoch, level, slot), files)
    return RoundSlot(
        plan,
        level,
        slot,
        layout,
        options,
        directory,
        uploads=SlotUploads(uploader, directory / f"versions-{level}"),
        restored=None if inheritance is None else inheritance.report,
        outside=outside,
    )
