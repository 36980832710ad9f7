"""What of a checkpoint goes where, if there are other numbers of slots than when it was made."""

from __future__ import annotations

import shutil
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from sparkdrain.checkpoints.restore import Restored, restore
from timers_state import KEY_GROUPS, MemoryStore, open_read_only
from timers_state.store.formats import ROCKS_DIRECTORY

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from sparkdrain.checkpoints.manifest import ShardState
    from sparkdrain.checkpoints.paths import Paths
    from sparkdrain.checkpoints.storage import Storage
    from sparkdrain.local_state.slot_files import SlotFiles
    from timers_state import Store


def groups_of_slot(slot: int, slots: int) -> range:
    """The key groups that one of ``slots`` has; see ``shuffle.keys.Owners``."""
    return range(-(-slot * KEY_GROUPS // slots), -(-(slot + 1) * KEY_GROUPS // slots))


def heir(slot: int, before: int, slots: int) -> int:
    """The new slot that gets what an old slot had for its own, as a whole."""
    return slot * slots // before


def heir_of_part(slot: int, before: int, slots: int, part: int, parts: int) -> int:
    """The new slot that gets one of so many equal ``parts`` of what an old slot had.

    Each of those that get some of its key groups has its share; all shares are as even as can be.
    """
    groups = groups_of_slot(slot, before)
    if not groups:
        return heir(slot, before, slots)
    group = groups.start + (2 * part + 1) * len(groups) // (2 * parts)
    return group * slots // KEY_GROUPS


def sources_of(slot: int, before: int, slots: int) -> list[int]:
    """Which of the ``before`` slots one of ``slots`` inherits from, in any of these ways."""
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


@contextmanager
def old_stores(
    storage: Storage,
    paths: Paths,
    shards: Iterable[ShardState],
    directory: Path,
    nearby: SlotFiles | None = None,
) -> Iterator[tuple[dict[int, Store], Restored]]:
    """The stores that slots had, by slot, as copies beside ``directory`` while this lasts.

    Args:
        directory: where the new store is made of them.
        nearby: see ``restore``.

    Returns:
        The stores, and where their bytes came from.

    Raises:
        CheckpointDamaged: a file is missing in storage, or is not what was written; names it.
        CheckpointFailed: storage or disk refuse. In any case, nothing is left of the copies.
    """
    with ExitStack() as cleanup:
        stores: dict[int, Store] = {}
        restored = Restored()
        for shard in shards:
            copy = directory.with_name(f"{directory.name}.of-{shard.slot}")
            cleanup.callback(shutil.rmtree, copy, ignore_errors=True)
            restored += restore(storage, paths, shard, copy, nearby)
            store: Store = MemoryStore()  # what nothing was written to has no tables
            if (copy / ROCKS_DIRECTORY).exists():
                store = open_read_only(copy)
            cleanup.callback(store.close)
            stores[shard.slot] = store
        yield stores, restored
