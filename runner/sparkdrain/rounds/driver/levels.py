"""Runs the levels of a round on Spark: one job each, as in batch, but through host processes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from typing_extensions import override

from sparkdrain.errors import WorkerLost
from sparkdrain.graph.environments import has_harnesses
from sparkdrain.hosts.leash import Leash
from sparkdrain.hosts.line import HostId
from sparkdrain.rounds.driver.hang_watch import HangWatch
from sparkdrain.rounds.driver.loop import Levels
from sparkdrain.rounds.driver.placement import Placement
from sparkdrain.rounds.messages import RoundReport
from sparkdrain.rounds.slots.task import RoundTask
from sparkdrain.shuffle.blocks import reports_in
from sparkdrain.shuffle.complete import one_of_each
from sparkdrain.stages.cluster.driver_address import driver_address
from sparkdrain.stages.cluster.executors import executors
from sparkdrain.stages.level_jobs import LevelJobs
from sparkdrain.stages.spark.notes import Notes
from sparkdrain.stages.telling.log_channel import log_server

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark import SparkContext

    from sparkdrain.graph.plan import Plan
    from sparkdrain.rounds.messages import RoundHeader
    from sparkdrain.rounds.slots.checkpoint_place import CheckpointPlace
    from sparkdrain.shuffle.outbox import ShuffleLayout
    from sparkdrain.stages.shards.task_options import TaskOptions
    from sparkdrain.stages.workers.preparation import Preparation
    from sparkdrain.types import CancelToken


class SparkLevels(Levels):
    """See ``Levels``. ``close`` ends the hosts.

    A round may take ``limit`` seconds. After ``patience`` seconds ``warn`` hears what it waits for.
    A host may use ``memory_mib`` MiB of memory; 0 means that there is no limit. ``log`` takes what
    SDK harnesses log: the level of ``logging``, and the text. ``sample`` takes samples of elements,
    if the options want them: the name of a step, and what it has made.
    """

    def __init__(
        self,
        context: SparkContext,
        plan: Plan,
        layout: ShuffleLayout,
        options: TaskOptions,
        run_id: str,
        job_name: str,
        preparation: Preparation,
        cancel: CancelToken,
        first_round: int = 1,
        place: CheckpointPlace | None = None,
        placement: Placement | None = None,
        patience: float = 0.0,
        limit: float = 0.0,
        warn: Callable[[str], object] = str,
        memory_mib: int = 0,
        log: Callable[[int, str], object] = lambda _level, _text: None,
        sample: Callable[[str, str], object] = lambda _of, _text: None,
    ) -> None:
        self._fresh = {first_round: frozenset(range(layout.slots))}
        self._place = place
        self._layout = layout
        self._options = options
        self._memory_mib = memory_mib
        self._run_id = run_id
        self._preparation = preparation
        self._jobs = LevelJobs(context, plan, layout, run_id, cancel)
        self._jobs.name(job_name)
        self._reports = Notes(context)
        self._leash = Leash(driver_address(context))
        self._logs = (
            log_server(driver_address(context), log, sample) if has_harnesses(plan) else None
        )
        self._placement = placement or Placement(layout.slots)
        self._placement.begin(executors(context))
        self._watch = HangWatch(patience, limit, self._leash.look, warn, self._jobs.stop)
        self._watch.start()

    def run(self, headers: Sequence[RoundHeader]) -> list[RoundReport]:
        """See ``loop.Levels``.

        Raises:
            SparkDrainError: the level failed.
        """
        first = headers[0]
        producers = sorted({level for level, _ in first.expected})
        copies = self._placement.copies()
        task = RoundTask(
            self._run_id,
            self._jobs.plan_file,
            first.level,
            self._layout,
            self._options,
            self._preparation,
            self._leash.endpoint,
            tuple(
                replace(header, copies=copies.get(header.slot, ())).encode() for header in headers
            ),
            self._fresh.get(first.number, frozenset()),
            bool(producers),
            self._place,
            self._reports,
            self._memory_mib,
            None if self._logs is None else self._logs.endpoint,
        )
        # Of an attempt that failed, those that came nevertheless.
        self._reports.take()
        visits = self._leash.visits()
        self._watch.level(first.level)
        with self._jobs.running(self._watch.check):
            places = self._placement.places(self._leash.hosts())
            exchange = self._jobs.exchange(task, first.level, producers, len(headers), places)
            self._jobs.sent[first.level] = [exchange]
            exchange.run()
        self._watch.check()
        self._placement.ran(len(headers), self._leash.visits() - visits)
        return _one_of_each(headers, reports_in(self._reports.take()))

    def reopen(self, slots: frozenset[int], number: int) -> None:
        """End the hosts of these slots; new ones may be made in round ``number``.

        Raises:
            WorkerLost: a host does not end.
        """
        left = self._leash.release({HostId(self._run_id, slot) for slot in slots})
        if left:
            message = f"A slot cannot move, since its process does not end: {left[0]}."
            raise WorkerLost(message)
        self._fresh = {number: slots}

    @override
    def check_hosts(self) -> None:
        lost = self._leash.lost()
        if lost:
            message = (
                f"The process that holds the state of slot {lost[0].id.slot} ended between two "
                f"rounds: {lost[0]}."
            )
            raise WorkerLost(message)

    @override
    def on_loss(self, tell: Callable[[], object]) -> None:
        self._leash.on_loss(tell)

    @override
    def end_round(self) -> None:
        self._watch.end_round()
        self._jobs.drop()

    def close(self) -> None:
        """End all hosts: DoFns are torn down, state is deleted."""
        self._watch.close()
        self._leash.close()
        if self._logs is not None:
            self._logs.close()
        self._reports.close()
        self._jobs.close()


def _one_of_each(headers: Sequence[RoundHeader], told: list[bytes]) -> list[RoundReport]:
    """The reports of the slots with these headers.

    Raises:
        TruncatedInput: see ``one_of_each``.
    """
    reports = [RoundReport.decode(report) for report in told]
    one_of_each(
        ((report.number, report.level, report.slot) for report in reports),
        ((header.number, header.level, header.slot) for header in headers),
    )
    return reports
