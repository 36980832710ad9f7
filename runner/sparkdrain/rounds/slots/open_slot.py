"""How a slot comes to life in a process: empty, or with the state that a checkpoint has of it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from sparkdrain.checkpoints.beam_storage import storage_at
from sparkdrain.checkpoints.destination import Destination
from sparkdrain.checkpoints.upload import Uploader
from sparkdrain.local_state.files import FileContent
from sparkdrain.rounds.messages import Opened
from sparkdrain.rounds.slots.checkpoint_place import slot_files
from sparkdrain.rounds.slots.slot import RoundSlot, state_directory
from sparkdrain.rounds.slots.take_over import take_over

if TYPE_CHECKING:
    from pathlib import Path

    from sparkdrain.checkpoints.manifest import FileEntry
    from sparkdrain.fnapi.harness import Outside
    from sparkdrain.graph.plan import Plan
    from sparkdrain.rounds.messages import RoundHeader
    from sparkdrain.rounds.slots.checkpoint_place import CheckpointPlace
    from sparkdrain.shuffle.outbox import ShuffleLayout
    from sparkdrain.stages.shards.task_options import TaskOptions


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
    began = time.monotonic()
    storage, kept = storage_at(place.paths.root), slot_files(place, level, slot)
    where = state_directory(directory, level)
    files: tuple[FileEntry, ...] = ()
    opened = None
    try:
        if inheritance is not None:
            files = inheritance.files(layout.slots)
            contents = {
                FileContent(file.digest, file.size): file.name for file in files if file.path
            }
            number = header.orders.published
            if kept is not None and contents:
                kept.hold(number, contents)
            found = take_over(plan, inheritance, layout.slots, storage, place.paths, where, kept)
            if kept is not None and contents:
                named = {content: where / name for content, name in contents.items()}
                kept.keep(number, named, lambda: None)
            told = "" if kept is None else kept.wrong
            seconds = time.monotonic() - began
            opened = Opened(seconds, found.local_bytes, found.fetched_bytes, told)
    except BaseException:
        if kept is not None:
            kept.close()
        raise
    uploader = Uploader(Destination(storage, place.paths, place.epoch, level, slot), files, kept)
    return RoundSlot(
        plan,
        level,
        slot,
        layout,
        options,
        directory,
        uploader=uploader,
        restored=None if inheritance is None else inheritance.report,
        outside=outside,
        opened=opened,
    )
