"""Published files of slots, brought to an executor before the slots move to it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from sparkdrain.checkpoints.beam_storage import storage_at
from sparkdrain.checkpoints.publish import newest
from sparkdrain.errors import SparkDrainError
from sparkdrain.hosts.call import executor_process
from sparkdrain.hosts.executor import executor_of
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
        place: of the job's checkpoints.
        preparation: what a worker must know to reach them.
        number: of a published checkpoint.
        slots: that are to move, by the id of the executor that they move to.
    """

    place: CheckpointPlace
    preparation: Preparation
    number: int
    slots: Mapping[str, Sequence[int]]

    def __call__(self) -> Brought:
        """Runs in a Python worker of the executor."""
        # Spark may have a task run elsewhere than it was told.
        executor = executor_of(executor_process())
        wanted = () if executor is None else self.slots.get(executor.id, ())
        if not wanted:
            return Brought()
        worker().prepare(self.preparation)
        return brought(self.place, self.number, wanted)


def brought(place: CheckpointPlace, number: int, slots: Sequence[int]) -> Brought:
    """Have the files of a published checkpoint on this host.

    Slots can move whose files are here. All of them, if this host can keep no files: then they move
    as those of a job without such a folder.
    """
    storage = storage_at(place.paths.root)
    try:
        manifest = newest(storage, place.paths, number)
    except SparkDrainError as error:
        return Brought(wrong=str(error))
    if manifest is None:
        return Brought(wrong=f"checkpoint {number} was removed before its files were fetched")
    left, wrong = set(slots), ""
    for shard in manifest.shards:
        kept = slot_files(place, shard.level, shard.slot) if shard.slot in left else None
        if kept is None:
            continue
        try:
            bring_shard(storage, place.paths, kept, number, shard)
        except SparkDrainError as error:
            wrong = wrong or str(error)
            left.discard(shard.slot)
        finally:
            kept.close()
    return Brought(sorted(left), wrong)
