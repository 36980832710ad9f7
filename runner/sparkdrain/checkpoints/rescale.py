"""Restores a checkpoint into another number of slots than it was made with."""

from __future__ import annotations

import shutil
from contextlib import ExitStack
from typing import TYPE_CHECKING

from sparkdrain.checkpoints.restore import restore
from timers_state import DEFAULT_GROUPS, open_read_only
from timers_state.gather import Source, gather

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from sparkdrain.checkpoints.manifest import ShardState
    from sparkdrain.checkpoints.paths import Paths
    from sparkdrain.checkpoints.storage import Storage
    from timers_state.gather import Spread


def groups_of_slot(slot: int, slots: int) -> range:
    """The key groups that one of ``slots`` has; see ``shuffle.keys.slot_of``."""
    return range(-(-slot * DEFAULT_GROUPS // slots), -(-(slot + 1) * DEFAULT_GROUPS // slots))


def heir(slot: int, before: int, slots: int) -> int:
    """Who of ``slots`` gets what one of the ``before`` had for its own, whatever the keys."""
    return slot * slots // before


def sources_of(slot: int, before: int, slots: int) -> list[int]:
    """Which of the ``before`` slots one of ``slots`` needs."""
    mine = groups_of_slot(slot, slots)
    return [
        old
        for old in range(before)
        if heir(old, before, slots) == slot
        or (
            groups_of_slot(old, before).start < mine.stop
            and mine.start < groups_of_slot(old, before).stop
        )
    ]


def restore_rescaled(
    storage: Storage,
    paths: Paths,
    shards: Mapping[int, ShardState],
    slot: int,
    slots: int,
    directory: Path,
    spread: Callable[[int], Spread],
) -> None:
    """Make ``directory``, which must not be there, the store of a slot of a level.

    Needs room for all of the old slots that it has something of, beside it.

    Args:
        storage: where the checkpoint is.
        paths: of the job.
        shards: the level's state in the checkpoint, by slot: all of them.
        slot: the new slot.
        slots: how many there are now.
        directory: of its store.
        spread: how a state is spread over slots, by its id.

    Raises:
        Unmovable: state cannot be moved; names it.
        CheckpointDamaged: a file is missing in storage, or is not what was written; names it.
        CheckpointFailed: storage or disk refuse. In any case, nothing is left.
    """
    before = len(shards)
    with ExitStack() as cleanup:
        sources = []
        for old in sources_of(slot, before, slots):
            copy = directory.with_name(f"{directory.name}.of-{old}")
            cleanup.callback(shutil.rmtree, copy, ignore_errors=True)
            restore(storage, paths, shards[old], copy)
            store = open_read_only(copy)
            cleanup.callback(store.close)
            own = heir(old, before, slots) == slot
            sources.append(Source(store, groups_of_slot(old, before), own))
        try:
            gather(directory, sources, groups_of_slot(slot, slots), spread)
        except BaseException:
            shutil.rmtree(directory, ignore_errors=True)
            raise
