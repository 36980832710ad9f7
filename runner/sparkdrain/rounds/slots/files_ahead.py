"""Published files of slots, brought to an executor before the slots move to it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from sparkdrain.checkpoints.beam_storage import storage_at
from sparkdrain.checkpoints.publish import newest
from sparkdrain.errors import SparkDrainError
from sparkdrain.hosts.executor import executor_of, executor_process
from sparkdrain.rounds.slots.checkpoint_place import slot_files
from sparkdrain.rounds.slots.warm_copies import bring_shard
from sparkdrain.stages.workers.worker import worker

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sparkdrain.rounds.slots.checkpoint_place import CheckpointPlace
    from sparkdrain.stages.workers.preparation import Preparation


class Brought(NamedTuple):
    """An executor's answer, which becomes a list in JSON.

    Attributes:
        slots: that can move to it now.
        wrong: why others cannot; empty if all can.
    """

    slots: Sequence[int] = ()
    wrong: str = ""


@dataclass(frozen=True, slots=True)
class BringFiles:
    """A question that an executor answers when it has fetched: which slots can move to it now.

    Attributes:
        place: where the job's checkpoints are.
        preparation: what a worker must know to reach them.
        slots: that are to move, by the id of the executor that they move to.
    """

    place: CheckpointPlace
    preparation: Preparation
    slots: Mapping[str, Sequence[int]]

    def __call__(self) -> Brought:
        """Runs in a Python worker of the executor."""
        # Spark may have a task run elsewhere than it was told.
        executor = executor_of(executor_process())
        wanted = () if executor is None else self.slots.get(executor.id, ())
        if not wanted:
            return Brought()
        worker().prepare(self.preparation)
        return brought(self.place, wanted)


def brought(place: CheckpointPlace, slots: Sequence[int]) -> Brought:
    """Have the files of the newest checkpoint on this host.

    That may be a newer one than the driver knew of: until a worker has started, the job may have
    made others and removed that one.

    Slots can move whose files are here. All of them, if this host can keep no files: then they move
    as those of a job without such a folder.
    """
    storage = storage_at(place.paths.root)
    try:
        manifest = newest(storage, place.paths)
    except SparkDrainError as error:
        return Brought(wrong=str(error))
    if manifest is None:
        return Brought(wrong=f"{place.paths.folder} has no checkpoint")
    left, wrong = set(slots), ""
    for shard in manifest.shards:
        kept = slot_files(place, shard.level, shard.slot) if shard.slot in left else None
        if kept is None:
            continue
        try:
            bring_shard(storage, place.paths, kept, manifest.number, shard)
        except SparkDrainError as error:
            wrong = wrong or str(error)
            left.discard(shard.slot)
        finally:
            kept.close()
    return Brought(sorted(left), wrong)
