"""Runs the levels of a round on Spark: one job each, as in batch, but through host processes."""

from __future__ import annotations

import contextlib
from collections import Counter
from typing import TYPE_CHECKING

from typing_extensions import override

from sparkdrain.errors import Cancelled, TruncatedInput
from sparkdrain.hosts.leash import Leash
from sparkdrain.rounds.driver.hang_watch import HangWatch
from sparkdrain.rounds.driver.loop import Levels
from sparkdrain.rounds.driver.placement import Placement
from sparkdrain.rounds.messages import RoundReport
from sparkdrain.rounds.slots.task import RoundTask
from sparkdrain.shuffle.blocks import reports_in
from sparkdrain.stages.driver_address import driver_address
from sparkdrain.stages.executors import executors
from sparkdrain.stages.spark.broadcast import FileBroadcast
from sparkdrain.stages.spark.errors import JOB_FAILED, JVM_LOST
from sparkdrain.stages.spark.exchange import Exchange, partitioner
from sparkdrain.stages.spark.notes import Notes
from sparkdrain.stages.spark.session import jvm_ended
from sparkdrain.stages.spark_error import as_error

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark import SparkContext

    from sparkdrain.graph.plan import Plan
    from sparkdrain.rounds.messages import RoundHeader
    from sparkdrain.rounds.slots.open_slot import CheckpointPlace
    from sparkdrain.shuffle.outbox import ShuffleLayout
    from sparkdrain.stages.preparation import Preparation
    from sparkdrain.stages.task import TaskOptions
    from sparkdrain.types import CancelToken


class SparkLevels(Levels):
    """See ``loop.Levels``. ``close`` ends the hosts.

    A round may take ``limit`` seconds. After ``patience`` seconds ``warn`` hears what it waits for.
    A host may use ``memory_mib`` MiB of memory; 0 means that there is no limit.
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
    ) -> None:
        self._context = context
        self._first_round = first_round
        self._place = place
        self._layout = layout
        self._options = options
        self._memory_mib = memory_mib
        self._run_id = run_id
        self._preparation = preparation
        self._cancel = cancel
        self._partitioner = partitioner(context, layout.partitions, hash(run_id) & 0x7FFFFFFF)
        self._plan_file = FileBroadcast(context, lambda file: file.write(plan.encode()))
        self._reports = Notes(context)
        self._exchanges: dict[int, Exchange] = {}
        self._leash = Leash(driver_address(context))
        self._placement = placement or Placement(layout.slots)
        self._placement.begin(executors(context))
        context.setJobGroup(run_id, job_name, interruptOnCancel=True)
        cancel.on_cancel(lambda: context.cancelJobGroup(run_id))
        self._watch = HangWatch(
            patience, limit, self._leash.look, warn, lambda: context.cancelJobGroup(run_id)
        )
        self._watch.start()

    def run(self, headers: Sequence[RoundHeader]) -> list[RoundReport]:
        """See ``loop.Levels``.

        Raises:
            SparkDrainError: the level failed.
        """
        first = headers[0]
        producers = sorted({level for level, _ in first.expected})
        task = RoundTask(
            self._run_id,
            self._plan_file,
            first.level,
            self._layout,
            self._options,
            self._preparation,
            self._leash.endpoint,
            tuple(header.encode() for header in headers),
            first.number == self._first_round,
            bool(producers),
            self._place,
            self._reports,
            self._memory_mib,
        )
        layout = self._layout
        # Of an attempt that failed, those that came nevertheless.
        self._reports.take()
        visits = self._leash.visits()
        self._watch.level(first.level)
        try:
            exchange = Exchange(
                self._context,
                task,
                [self._exchanges[producer] for producer in producers],
                layout.partitions,
                [layout.shard(first.level, header.slot) for header in headers],
                self._partitioner,
                self._placement.places(self._leash.hosts()),
            )
            self._exchanges[first.level] = exchange
            exchange.run()
        except JOB_FAILED as error:
            if self._cancel.is_cancelled():
                raise Cancelled(self._run_id) from None
            self._watch.check()
            raise as_error(error, self._context.pythonExec, jvm_ended) from None
        self._watch.check()
        self._placement.ran(len(headers), self._leash.visits() - visits)
        return _one_of_each(headers, reports_in(self._reports.take()))

    @override
    def end_round(self) -> None:
        self._watch.end_round()
        exchanges, self._exchanges = self._exchanges, {}
        with contextlib.suppress(*JVM_LOST):
            for exchange in exchanges.values():
                exchange.drop()

    def close(self) -> None:
        """End all hosts: DoFns are torn down, state is deleted."""
        self._watch.close()
        self._leash.close()
        self._reports.close()
        with contextlib.suppress(*JVM_LOST):
            self._plan_file.drop()


def _one_of_each(headers: Sequence[RoundHeader], told: list[bytes]) -> list[RoundReport]:
    """The reports of the slots with these headers.

    Raises:
        TruncatedInput: a slot has run twice, or not in this round: what was sent may be of one
            time, and the slot's state of the other.
    """
    reports = [RoundReport.decode(report) for report in told]
    ran = Counter((report.number, report.level, report.slot) for report in reports)
    asked = Counter((header.number, header.level, header.slot) for header in headers)
    if ran != asked:
        off = sorted({slot for _, _, slot in (ran - asked) + (asked - ran)})
        message = f"of slots {off} of level {headers[0].level} there is not one report each"
        raise TruncatedInput(message)
    return reports
