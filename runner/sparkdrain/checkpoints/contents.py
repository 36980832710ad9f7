"""What is in the state of a slot, counted."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from sparkdrain.checkpoints.restore import restore
from sparkdrain.room import room
from timers_state import inspect, open_read_only
from timers_state.store.formats import ROCKS_DIRECTORY

if TYPE_CHECKING:
    from sparkdrain.checkpoints.manifest import ShardState
    from sparkdrain.checkpoints.paths import Paths
    from sparkdrain.checkpoints.storage import Storage


@dataclass(slots=True)
class StateContent:
    """What there is of one kind of cell or timer of one state.

    Attributes:
        keys: how many.
        rows: how many, of all keys.
        bytes: size of their values.
    """

    keys: int = 0
    rows: int = 0
    bytes: int = 0


def contents(
    storage: Storage, paths: Paths, shard: ShardState
) -> dict[tuple[int, str, bytes], StateContent]:
    """What a slot's state has, by state id, kind, and tag or timer family.

    Takes as much room among temporary files as the state, and memory for none of its keys.

    Raises:
        CheckpointDamaged: a file is missing, or is not what was written.
        CheckpointFailed: storage or disk refuse.
        StateError: the store cannot be read.
    """
    found: dict[tuple[int, str, bytes], StateContent] = {}
    last: dict[tuple[int, str, bytes], bytes] = {}
    with TemporaryDirectory(prefix="contents-", dir=room()) as directory:
        restore(storage, paths, shard, Path(directory) / "store")
        if not (Path(directory) / "store" / ROCKS_DIRECTORY).exists():
            return {}  # nothing was ever written to it
        store = open_read_only(Path(directory) / "store")
        try:
            for entry in inspect.entries(store):
                name = (entry.state_id, entry.kind, entry.tag)
                content = found.setdefault(name, StateContent())
                content.rows += 1
                content.bytes += entry.size
                if last.get(name) != entry.key:  # rows come in the order of keys
                    content.keys += 1
                    last[name] = entry.key
        finally:
            store.close()
    return found
