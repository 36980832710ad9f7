"""Runs the levels of a round on Spark: one job each, as in batch, but through host processes."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from apache_beam.portability.api import beam_job_api_pb2
from typing_extensions import override

from sparkdrain.errors import WorkerLost
from sparkdrain.graph.environments import has_harnesses
from sparkdrain.hosts.leash import Leash
from sparkdrain.hosts.line import HostId
from sparkdrain.invocation import importance_of
from sparkdrain.rounds.driver.hang_watch import HangWatch
from sparkdrain.rounds.driver.loop import Levels
from sparkdrain.rounds.messages import RoundReport
from sparkdrain.rounds.slots.task import RoundTask
from sparkdrain.shuffle.blocks import reports_in
from sparkdrain.shuffle.complete import one_of_each
from sparkdrain.shuffle.outbox import ShuffleLayout
from sparkdrain.stages.cluster.driver_address import driver_address
from sparkdrain.stages.cluster.executors import executors
from sparkdrain.stages.level_jobs import LevelJobs
from sparkdrain.stages.shards.task_options import TaskOptions
from sparkdrain.stages.spark.notes import Notes
from sparkdrain.stages.telling.log_channel import log_server

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark import SparkContext

    from sparkdrain.graph.plan import Plan
    from sparkdrain.invocation import Invocation
    from sparkdrain.rounds.driver.placement import Placement
    from sparkdrain.rounds.messages import RoundHeader
    from sparkdrain.rounds.slots.checkpoint_place import CheckpointPlace
    from sparkdrain.stages.workers.preparation import Preparation
    from sparkdrain.types import CancelToken


class SparkLevels(Levels):
    """See ``Levels``. ``close`` ends the hosts.

    Args:
        run_id: names the hosts, with the epoch of the life if the job has checkpoints.
        cancel: ends the life.
        first_round: in which hosts may be made.
        place: where checkpoints go, if the job has any.
        sample: takes samples of elements, if the options want them: the name of a step, and what
            it has made.
    """

    def __init__(
        self,
        context: SparkContext,
        plan: Plan,
        invocation: Invocation,
        run_id: str,
        preparation: Preparation,
        cancel: CancelToken,
        first_round: int,
        place: CheckpointPlace | None,
        placement: Placement,
        sample: Callable[[str, str], object],
    ) -> None:
        settings, tell = invocation.settings, invocation.observer.message
        self._options = TaskOptions(
            settings.block_kb << 10,
            settings.shuffle_memory_mb << 20,
            settings.compiled_stages,
            settings.state_memory_mb << 20,
            settings.async_steps,
            settings.samples,
        )
        self._layout = ShuffleLayout(placement.slots, len(plan.levels), 0)
        self._fresh = {first_round: frozenset(range(placement.slots))}
        self._place = place
        self._memory_mib = settings.slot_memory_limit_mb
        self._life = run_id if place is None else f"{run_id}.{place.epoch}"
        self._preparation = preparation
        self._jobs = LevelJobs(context, plan, self._layout, self._life, cancel)
        self._jobs.name(invocation.job_name)
        self._reports = Notes(context)
        self._leash = Leash(driver_address(context))
        self._logs = None
        if has_harnesses(plan):
            self._logs = log_server(
                driver_address(context),
                lambda level, text: tell(importance_of(level), text),
                sample,
            )
        self._placement = placement
        self._placement.begin(executors(context))
        self._watch = HangWatch(
            settings.hang_warning_ms / 1000,
            settings.round_limit_ms / 1000,
            self._leash.look,
            partial(tell, beam_job_api_pb2.JobMessage.JOB_MESSAGE_WARNING),
            self._jobs.stop,
        )
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
            self._life,
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
        left = self._leash.release({HostId(self._life, slot) for slot in slots})
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
