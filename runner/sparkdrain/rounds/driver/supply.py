"""Brings published files of slots to the executors that slots are to move to, ahead of them."""

from __future__ import annotations

import threading
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from sparkdrain.checkpoints.beam_storage import storage_at
from sparkdrain.checkpoints.publish import newest
from sparkdrain.errors import SparkDrainError
from sparkdrain.hosts.executor import executor_of, executor_process
from sparkdrain.rounds.slots.warm_copies import bring_shard
from sparkdrain.stages.workers.worker import worker

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence, Set

    from sparkdrain.hosts.executor import Executor
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
        kept = place.slot_files(shard.level, shard.slot) if shard.slot in left else None
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


class HostSupply:
    """Brings files, once at a time: has executors fetch them, by a Spark job of their own.

    Args:
        ask: has each of some executors answer a question.
        stop: ends the jobs that ``ask`` runs.
    """

    def __init__(
        self,
        ask: Callable[[Sequence[Executor], Callable[[], Any]], Mapping[Executor, Any]],
        stop: Callable[[], object],
        place: CheckpointPlace,
        preparation: Preparation,
    ) -> None:
        self._ask = ask
        self._stop = stop
        self._place = place
        self._preparation = preparation
        self._there: Set[int] | None = frozenset()
        self.wrong = ""
        """Why slots cannot move; empty if that is not known."""
        self._thread: threading.Thread | None = None

    def begin(self, moving: Mapping[int, Executor]) -> None:
        """Begin to bring the files of slots to where they are to be; does not wait."""
        slots: dict[str, list[int]] = defaultdict(list)
        for slot, executor in sorted(moving.items()):
            slots[executor.id].append(slot)
        question = BringFiles(self._place, self._preparation, dict(slots))
        self._there = None
        # A daemon: no process waits for a storage that hangs.
        self._thread = threading.Thread(
            target=self._bring,
            args=(sorted(set(moving.values())), question),
            name="files-ahead",
            daemon=True,
        )
        self._thread.start()

    def there(self) -> Set[int] | None:
        """The slots that can move now; None while files are still on their way."""
        return self._there

    def close(self) -> None:
        """Nothing is wanted any more. Does not wait."""
        if self._thread is not None and self._thread.is_alive():
            self._stop()

    def _bring(self, executors: Sequence[Executor], question: BringFiles) -> None:
        there: set[int] = set()
        wrong = "no executor has answered"
        try:
            asked = self._ask(executors, question)
            answers = {one: Brought(*answer) for one, answer in asked.items()}
            there.update(slot for answer in answers.values() for slot in answer.slots)
            silent = [one.id for one in executors if one not in answers]
            told = [answer.wrong for answer in answers.values() if answer.wrong]
            wrong = [*told, *(f"executor {one} has not answered" for one in silent), ""][0]
        finally:
            self.wrong, self._there = wrong, there
