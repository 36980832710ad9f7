"""Runs the levels of a plan, one Spark job each, and publishes side inputs between them."""

from __future__ import annotations

import contextlib
import tempfile
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sparkdrain.errors import Cancelled
from sparkdrain.graph.environments import has_harnesses
from sparkdrain.graph.plan import EdgeKind
from sparkdrain.graph.readers import has_restrictions
from sparkdrain.invocation import importance_of
from sparkdrain.shuffle.blocks import reports_in
from sparkdrain.shuffle.complete import Completeness, agree, one_of_each
from sparkdrain.shuffle.outbox import ShuffleLayout
from sparkdrain.shuffle.sort_merging import SortMerger
from sparkdrain.side_inputs.file import write_side_file
from sparkdrain.stages.batch.balance import BalancedRun
from sparkdrain.stages.batch.task import LevelTask
from sparkdrain.stages.cluster.context import is_local
from sparkdrain.stages.cluster.driver_address import driver_address
from sparkdrain.stages.level_jobs import LevelJobs
from sparkdrain.stages.shards.task_options import TaskOptions
from sparkdrain.stages.spark.errors import JVM_LOST
from sparkdrain.stages.spark.files import FileBroadcast
from sparkdrain.stages.spark.notes import Notes
from sparkdrain.stages.telling.failure_channel import first_failure
from sparkdrain.stages.telling.job_over import JobOver
from sparkdrain.stages.telling.log_channel import SampleMessages, log_server
from sparkdrain.stages.telling.report import SlotReport
from sparkdrain.stages.telling.spark_error import of_failure

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyspark import SparkContext

    from sparkdrain.graph.plan import LevelIndex, Plan
    from sparkdrain.invocation import Invocation
    from sparkdrain.lines.server import Server
    from sparkdrain.stages.spark.exchange import Exchange
    from sparkdrain.stages.telling.progress import JobProgress
    from sparkdrain.stages.workers.preparation import Preparation

_SIDE_BUCKETS = 16


class LevelRunner:
    """One attempt at a job."""

    def __init__(
        self,
        context: SparkContext,
        plan: Plan,
        invocation: Invocation,
        run_id: str,
        preparation: Preparation,
        progress: JobProgress,
    ) -> None:
        self._context = context
        self._plan = plan
        self._job_name = invocation.job_name
        self._cancel = invocation.cancel
        self._run_id = run_id
        self._preparation = preparation
        self._progress = progress
        settings = invocation.settings
        slots = settings.slots or context.defaultParallelism
        sides = _SIDE_BUCKETS if any(e.kind is EdgeKind.SIDE for e in plan.edges) else 0
        self._layout = ShuffleLayout(slots, len(plan.levels), sides)
        self._jobs = LevelJobs(context, plan, self._layout, run_id, invocation.cancel)
        # Of each level that has run: the slots that sent something.
        self._slots: dict[int, list[int]] = {}
        self._attempts: list[dict[tuple[int, int], int]] = []
        self._side_inputs: dict[int, FileBroadcast] = {}
        self._options = TaskOptions(
            settings.block_kb << 10,
            settings.shuffle_memory_mb << 20,
            settings.compiled_stages,
            async_steps=settings.async_steps,
            samples=settings.samples,
        )
        self._first = first_failure(context, self._jobs.stop, local=is_local(context))
        self._over = JobOver(driver_address(context))
        self._told = Notes(context)
        self._logs: Server | None = None
        if has_harnesses(plan):
            tell = invocation.observer.message
            self._logs = log_server(
                driver_address(context),
                lambda level, text: tell(importance_of(level), text),
                SampleMessages(tell),
            )

    def run(self) -> Iterator[SlotReport]:
        """Run all levels; the reports of a level come out when it has ended.

        Raises:
            SparkDrainError: see ``execute``.
        """
        for level in range(len(self._plan.levels)):
            if self._cancel.is_cancelled():
                raise Cancelled(self._run_id)
            self._name(level)
            self._progress.begin(level)
            with self._jobs.running(self._check):
                reports = self._run_level(level)
            self._progress.end(level, reports)
            yield from reports
            self._told.take()

    def told(self) -> list[SlotReport]:
        """Reports of the level that runs, of slots that have ended; from any thread."""
        return list(map(SlotReport.decode, self._told.look()))

    def _check(self) -> None:
        """Raise what a task has told already, if one has."""
        if self._first is not None and self._first.failure is not None:
            raise of_failure(self._first.failure) from None

    def _name(self, level: int) -> None:
        self._jobs.name(f"{self._job_name}: {self._progress.levels[level].steps}")

    def _run_level(self, level: int) -> list[SlotReport]:
        inputs = sorted(
            {e.producer for e in self._plan.edges_into(level) if e.kind is not EdgeKind.SIDE}
        )
        task = LevelTask(
            self._run_id,
            self._jobs.plan_file,
            level,
            frozenset((producer, slot) for producer in inputs for slot in self._slots[producer]),
            self._layout,
            self._options,
            self._preparation,
            self._over.endpoint,
            {
                side.edge: self._side_inputs[side.edge]
                for stage in self._plan.levels[level]
                for side in stage.side_inputs
                if side.edge in self._side_inputs
            },
            self._progress.endpoint,
            failures=None if self._first is None else self._first.server.endpoint,
            logs=None if self._logs is None else self._logs.endpoint,
            told=self._told,
        )
        if any(map(has_restrictions, self._plan.levels[level])):
            reports = self._run_balanced(task, inputs)
        else:
            exchange = self._jobs.exchange(task, level, inputs, self._layout.slots)
            self._jobs.sent[level] = [exchange]
            reports = self._reports(level, exchange, range(self._layout.slots))
        self._slots[level] = [report.slot for report in reports]
        self._attempts.extend(report.inputs for report in reports)
        # What was reported counts (metrics, side inputs): it must be what is read later.
        self._attempts.append({(level, report.slot): report.attempt for report in reports})
        agree(self._attempts)
        self._publish_side_inputs(level, reports)
        return reports

    def _reports(self, level: int, exchange: Exchange, slots: Iterable[int]) -> list[SlotReport]:
        """Run an exchange's tasks; what these slots report.

        PySpark takes the end of a connection, however it came, for the end of what was served. A
        slot without a report would be one that has sent nothing.

        Raises:
            TruncatedInput: see ``one_of_each``.
        """
        told = reports_in(exchange.read([self._layout.reports]))
        reports = list(map(SlotReport.decode, told))
        one_of_each(
            ((report.level, report.slot) for report in reports), ((level, slot) for slot in slots)
        )
        return reports

    def _run_balanced(self, task: LevelTask, inputs: list[LevelIndex]) -> list[SlotReport]:
        """Run a level in which slots may give restrictions to tasks beside them."""
        run = BalancedRun(
            self._context,
            self._layout.slots,
            lambda helper: self._jobs.exchange(
                replace(task, producers=frozenset(), balancer=run.endpoint, helper=helper),
                task.level,
                (),
                1,
            ),
            lambda exchange, helper: self._reports(task.level, exchange, [helper.slot]),
            lambda: self._name(task.level),
        )
        with run:
            main = self._jobs.exchange(
                replace(task, balancer=run.endpoint), task.level, inputs, self._layout.slots
            )
            slots = range(self._layout.slots)
            reports = run.wait(self._reports(task.level, main, slots))
        self._jobs.sent[task.level] = [main, *run.exchanges]
        return reports

    def _publish_side_inputs(self, level: int, reports: list[SlotReport]) -> None:
        edges = [e for e in self._plan.edges_out_of(level) if e.kind is EdgeKind.SIDE]
        if not edges:
            return
        writers: dict[int, set[tuple[int, int]]] = {}
        for report in reports:
            for partition in report.side_bytes:
                writers.setdefault(partition, set()).add((level, report.slot))
        scratch = Path(tempfile.gettempdir())
        mergers = {
            edge.id: SortMerger(self._options.memory_bytes, lambda: scratch) for edge in edges
        }
        for partition, producers in sorted(writers.items()):
            complete = Completeness(frozenset(producers))
            self._collect(level, partition, complete, mergers)
        for edge in edges:
            merger = mergers[edge.id]
            write = partial(write_side_file, groups=merger.sorted_groups())
            self._side_inputs[edge.id] = FileBroadcast(self._context, write)
            merger.close()

    def _collect(
        self,
        level: int,
        partition: int,
        complete: Completeness,
        mergers: dict[Any, SortMerger],
    ) -> None:
        sent = self._jobs.sent[level]
        records = chain.from_iterable(exchange.read([partition]) for exchange in sent)
        for block in complete.blocks(records):
            mergers[block.edge].add(bytes(block.payload))
        self._attempts.append(complete.verify())
        agree(self._attempts)

    def close(self) -> None:
        """End what the job has started elsewhere, and give shuffle files and broadcasts back."""
        self._over.tell()
        self._told.close()
        if self._logs is not None:
            self._logs.close()
        if self._first is not None:
            self._first.server.close()
        # Without a JVM there are none.
        with contextlib.suppress(*JVM_LOST):
            for side_input in self._side_inputs.values():
                side_input.drop()
        self._jobs.close()
