"""What runs in a slot: its part of every stage of one level, as one Spark task."""

from __future__ import annotations

import os
import random
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sparkdrain.shuffle.outbox import Outbox, ShuffleLayout
from sparkdrain.stages.failure import guarded
from sparkdrain.stages.failure_channel import tell
from sparkdrain.stages.progress_channel import ticking
from sparkdrain.stages.pump import Pump
from sparkdrain.stages.slot import Slot
from sparkdrain.stages.spark.broadcast import broadcast_file
from sparkdrain.stages.spark.files import local_directories
from sparkdrain.stages.warned import noted
from sparkdrain.stages.worker import worker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark import Broadcast

    from sparkdrain.lines.endpoint import Endpoint
    from sparkdrain.shuffle.complete import Producer
    from sparkdrain.stages.balance import Gift
    from sparkdrain.stages.preparation import Preparation


@dataclass(frozen=True, slots=True)
class TaskOptions:
    """The settings that a task needs.

    Attributes:
        block_bytes: at which a block is sent.
        memory_bytes: for grouping, before it spills.
        compiled: whether chains of simple transforms run as generated code.
        state_bytes: for state in streaming, of all levels of a slot; 0: a part of the above.
    """

    block_bytes: int
    memory_bytes: int
    compiled: bool
    state_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Helper:
    """A slot beyond the layout's, and what it is to process."""

    slot: int
    gift: Gift


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
    side_inputs: dict[int, Broadcast[Any]] = field(default_factory=dict)
    progress: Endpoint | None = None
    """Whom to tell how far the task is, if anybody."""
    balancer: Endpoint | None = None
    """Whom to offer restrictions, if the level has any."""
    failures: Endpoint | None = None
    """Whom to tell at once that user code has failed, if Spark would run the task again."""
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
                    run = Slot(
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
                    )
                    self._run(run, slot, records)

            yield from Pump[tuple[int, bytes]](work)

    def _run(self, run: Slot, slot: int, records: Iterator[bytes]) -> None:
        with ticking(self.progress, self.level, slot, run.handled):
            if self.helper is not None:
                run.help(self.helper.gift)
            else:
                run.run(records if self.producers else iter(()))

    def _open_side_input(self, edge: int) -> Any:
        if edge not in self.side_inputs:
            return None
        return worker().side_file(broadcast_file(self.side_inputs[edge]))


def scratch_directory() -> Path:
    """Where a task may keep files on its executor."""
    directories = local_directories()
    if directories:
        return directories[os.getpid() % len(directories)]
    import tempfile  # noqa: PLC0415 - only where Spark names no directory

    return Path(tempfile.gettempdir())
