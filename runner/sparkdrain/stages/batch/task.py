"""What runs in a slot: its part of every stage of one level, as one Spark task."""

from __future__ import annotations

import contextlib
import queue
import random
import threading
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from sparkdrain.fnapi.harness import Outside
from sparkdrain.fnapi.harnesses import harnesses
from sparkdrain.hosts.service import Abandoned
from sparkdrain.shuffle.outbox import Outbox, ShuffleLayout
from sparkdrain.stages.batch.slot import BatchSlot
from sparkdrain.stages.spark.files import broadcast_file, scratch_directory
from sparkdrain.stages.telling.failure import guarded
from sparkdrain.stages.telling.failure_channel import tell
from sparkdrain.stages.telling.log_channel import LogSender
from sparkdrain.stages.telling.progress import ticking
from sparkdrain.stages.telling.report import noted
from sparkdrain.stages.workers.preparation import job_of
from sparkdrain.stages.workers.worker import worker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark import Broadcast

    from sparkdrain.lines.line import Endpoint
    from sparkdrain.shuffle.complete import Producer
    from sparkdrain.stages.batch.balance import Helper
    from sparkdrain.stages.shards.task_options import TaskOptions
    from sparkdrain.stages.spark.notes import Notes
    from sparkdrain.stages.workers.preparation import Preparation

# Blocks that wait for Spark to take them.
_ROOM: Final = 4
_PATIENCE_SECONDS: Final = 0.2


@dataclass(frozen=True, slots=True)
class LevelTask:
    """The function that Spark runs in every slot of a level."""

    job: str
    plan: Broadcast[Any]
    level: int
    producers: frozenset[Producer]
    layout: ShuffleLayout
    options: TaskOptions
    preparation: Preparation
    over: Endpoint
    """Who tells that the job is over."""
    side_inputs: dict[int, Broadcast[Any]] = field(default_factory=dict)
    progress: Endpoint | None = None
    """Whom to tell how far the task is; None: the task does not tell."""
    balancer: Endpoint | None = None
    """Whom to offer restrictions, if the level has any."""
    failures: Endpoint | None = None
    """Whom to tell at once that user code has failed, if Spark would run the task again."""
    logs: Endpoint | None = None
    """Who takes log records of harnesses in other processes, if the job has any."""
    told: Notes | None = None
    """Takes the report when the task has ended, though its level has not."""
    helper: Helper | None = None
    """Set for a task beside the level's slots, which processes what one of them gave away."""

    def __call__(self, index: int, records: Iterator[bytes]) -> Iterator[tuple[int, bytes]]:
        """Run the slot: records in, (partition, block) pairs out.

        Raises:
            TaskFailed: with what the driver needs to tell the user.
        """
        slot = index if self.helper is None else self.helper.slot
        with guarded(self.level, slot, partial(tell, self.failures)):
            worker().prepare(self.preparation)
            # Random, so that two executions of this task can be told apart.
            attempt = random.SystemRandom().getrandbits(63)

            def work(push: Callable[[tuple[int, bytes]], None]) -> None:
                def send(partition: int, record: bytes) -> None:
                    push((partition, record))

                outbox = Outbox(self.layout, self.level, slot, attempt, send)
                plan = worker().plan(self.job, broadcast_file(self.plan))
                with noted() as warned:
                    run = BatchSlot(
                        plan,
                        self.level,
                        slot,
                        self.producers,
                        outbox,
                        self.options,
                        self._open_side_input,
                        scratch_directory,
                        self.balancer,
                        warned,
                        self._outside(),
                    )
                    self._run(run, slot, records)

            with worker().strays.of(self.job, self.over):
                yield from _pushed(work)

    def _outside(self) -> Outside | None:
        if self.logs is None:
            return None
        job = job_of(
            self.job,
            self.preparation,
            self.over,
            LogSender(self.logs),
            slots=self.layout.slots,
            samples=self.options.samples,
        )
        return Outside(job, harnesses())

    def _run(self, run: BatchSlot, slot: int, records: Iterator[bytes]) -> None:
        with ticking(self.progress, self.level, slot, run.handled):
            if self.helper is not None:
                run.help(self.helper.gift)
            else:
                run.run(records if self.producers else iter(()))
        if self.told is not None:
            self.told.tell(run.report)

    def _open_side_input(self, edge: int) -> Any:
        if edge not in self.side_inputs:
            return None
        return worker().side_file(broadcast_file(self.side_inputs[edge]))


def _pushed(
    work: Callable[[Callable[[tuple[int, bytes]], None]], None],
) -> Iterator[tuple[int, bytes]]:
    """What ``work(push)`` pushes, in bounded memory.

    A Spark task is a generator that Spark pulls from; a bundle pushes elements, any number of them
    for one that goes in. The bundle therefore runs in a thread and waits while Spark has not taken
    what it sent. When Spark pulls no more, ``push`` raises ``Abandoned``.
    """
    items: queue.Queue[tuple[int, bytes] | None] = queue.Queue(_ROOM)
    is_abandoned = threading.Event()
    errors: list[BaseException] = []

    def push(item: tuple[int, bytes] | None) -> None:
        while not is_abandoned.is_set():
            try:
                items.put(item, timeout=_PATIENCE_SECONDS)
            except queue.Full:
                continue
            return
        raise Abandoned

    def run() -> None:
        try:
            work(push)
        except BaseException as error:  # noqa: BLE001 - raised again where it is pulled
            errors.append(error)
        with contextlib.suppress(Abandoned):
            push(None)

    thread = threading.Thread(target=run, name="sparkdrain-slot", daemon=True)
    thread.start()
    try:
        while (item := items.get()) is not None:
            yield item
        thread.join()
    finally:
        is_abandoned.set()
    if errors:
        raise errors[0]
