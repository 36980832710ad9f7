"""Has files of slots brought to the executors that they are to move to, while the job goes on."""

from __future__ import annotations

import threading
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from sparkdrain.rounds.slots.files_ahead import BringFiles, Brought

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence, Set

    from sparkdrain.hosts.executor import Executor
    from sparkdrain.rounds.slots.checkpoint_place import CheckpointPlace
    from sparkdrain.stages.workers.preparation import Preparation


class HostSupply:
    """Brings files, once at a time: has executors fetch them, by a Spark job of their own.

    Args:
        ask: has each of some executors answer a question.
        stop: ends the jobs that ``ask`` runs.
        place: where the job's checkpoints are.
        preparation: what a worker must know to reach them.
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
        """Begin to bring the files of the newest checkpoint; does not wait.

        Args:
            moving: slots, and where they are to be.
        """
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
