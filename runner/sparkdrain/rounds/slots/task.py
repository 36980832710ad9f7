"""The function that Spark runs in every slot of a level in a round: a pipe to the slot's host."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from sparkdrain.fnapi.harness import Outside
from sparkdrain.fnapi.harnesses import harnesses
from sparkdrain.hosts.birth import HostDaemon
from sparkdrain.hosts.call import call
from sparkdrain.hosts.home import Home
from sparkdrain.hosts.line import HostId
from sparkdrain.rounds.slots.service import SlotService
from sparkdrain.stages.spark.files import broadcast_file, local_directories, scratch_directory
from sparkdrain.stages.telling.failure import TaskFailed, guarded, task_failure
from sparkdrain.stages.telling.log_channel import LogLimit, LogSender
from sparkdrain.stages.workers.preparation import job_of
from sparkdrain.stages.workers.worker import worker

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark import Broadcast

    from sparkdrain.lines.line import Endpoint
    from sparkdrain.rounds.slots.checkpoint_place import CheckpointPlace
    from sparkdrain.shuffle.outbox import ShuffleLayout
    from sparkdrain.stages.shards.task_options import TaskOptions
    from sparkdrain.stages.spark.notes import Notes
    from sparkdrain.stages.workers.preparation import Preparation


@dataclass(frozen=True, slots=True)
class RoundTask:
    """One level of one round.

    Attributes:
        job: the run's id.
        plan: the job's plan, a file.
        preparation: what a worker must know before user code is loaded.
        headers: the header for each slot, encoded.
        fresh: slots whose hosts may be made; others must be there, for they have state.
        has_input: Spark's records are those of a shuffle.
        place: where checkpoints go, if the job has any.
        reports: takes the slots' reports.
        memory_mib: MiB of memory that each host may use; 0 means that there is no limit.
        logs: takes log records and samples of SDK harnesses; None if the job has no harnesses.
    """

    job: str
    plan: Broadcast[Any]
    level: int
    layout: ShuffleLayout
    options: TaskOptions
    preparation: Preparation
    leash: Endpoint
    headers: tuple[bytes, ...]
    fresh: frozenset[int]
    has_input: bool
    place: CheckpointPlace | None
    reports: Notes
    memory_mib: int = 0
    logs: Endpoint | None = None

    def __call__(self, index: int, records: Iterator[bytes]) -> Iterator[tuple[int, bytes]]:
        """Run the slot: records in, (partition, block) pairs out.

        Raises:
            TaskFailed: with what the driver needs to tell the user.
        """
        with guarded(self.level, index):
            worker().prepare(self.preparation)
            for partition, record in call(
                self._daemon(index),
                self.headers[index],
                records if self.has_input else iter(()),
                fresh=index in self.fresh,
                failure=lambda told: TaskFailed(told.decode()),
            ):
                if partition == self.layout.reports:
                    self.reports.tell(record)
                else:
                    yield partition, record

    def _daemon(self, index: int) -> HostDaemon:
        host = HostId(self.job, index)
        return HostDaemon(
            host,
            Home.of(host, (local_directories() or [scratch_directory()])[0]),
            self.leash,
            partial(self._service, broadcast_file(self.plan)),
            partial(_told, index),
            memory_mib=self.memory_mib,
        )

    def _service(self, plan: Path | bytes, directory: Path) -> SlotService:
        """Called in the host's process."""
        content = plan if isinstance(plan, bytes) else plan.read_bytes()
        slots, samples = self.layout.slots, self.options.samples
        log = None if self.logs is None else LogSender(self.logs, LogLimit.of(slots))
        job = job_of(self.job, self.preparation, log=log, slots=slots, samples=samples)
        return SlotService(
            content,
            self.layout,
            self.options,
            directory,
            Outside(job, harnesses()),
            self.place,
            (lambda: None) if log is None else log.flush,
        )


def _told(slot: int, error: BaseException) -> bytes:
    """What goes wrong in a round is told by the service, which knows the level."""
    failure = error if isinstance(error, TaskFailed) else task_failure(error, -1, slot)
    return str(failure).encode()
