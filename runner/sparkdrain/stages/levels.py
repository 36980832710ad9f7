"""Runs the levels of a plan, one Spark job each, and publishes side inputs between them."""

from __future__ import annotations

import contextlib
import tempfile
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from sparkdrain.errors import Cancelled
from sparkdrain.graph.plan import EdgeKind, Plan
from sparkdrain.shuffle.blocks import Block, EndMessage, decode, reports_in
from sparkdrain.shuffle.complete import Completeness, agree
from sparkdrain.shuffle.outbox import ShuffleLayout
from sparkdrain.shuffle.sort_merging import SortMerger
from sparkdrain.side_inputs.file import write_side_file
from sparkdrain.stages.balanced_run import BalancedRun
from sparkdrain.stages.cluster import is_local
from sparkdrain.stages.failure_channel import first_failure
from sparkdrain.stages.report import SlotReport
from sparkdrain.stages.restrictions import restriction_edges
from sparkdrain.stages.spark.broadcast import FileBroadcast
from sparkdrain.stages.spark.errors import JOB_FAILED, JVM_LOST
from sparkdrain.stages.spark.exchange import Exchange, partitioner
from sparkdrain.stages.spark.session import jvm_ended
from sparkdrain.stages.spark_error import as_error, of_failure
from sparkdrain.stages.task import LevelTask, TaskOptions

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark import SparkContext

    from sparkdrain.invocation import Invocation
    from sparkdrain.stages.preparation import Preparation
    from sparkdrain.stages.progress import JobProgress

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
        self._partitioner = partitioner(context, self._layout.partitions, hash(run_id) & 0x7FFFFFFF)
        self._plan_file = FileBroadcast(context, lambda file: file.write(plan.encode()))
        # Of each level that has run: what was sent, and the slots that sent it.
        self._exchanges: dict[int, list[Exchange]] = {}
        self._slots: dict[int, list[int]] = {}
        self._attempts: list[dict[tuple[int, int], int]] = []
        self._side_inputs: dict[int, FileBroadcast] = {}
        self._options = TaskOptions(
            settings.block_kb << 10, settings.shuffle_memory_mb << 20, settings.compiled_stages
        )
        self._first = first_failure(context, self._stop, local=is_local(context))
        invocation.cancel.on_cancel(self._stop)

    def _stop(self) -> None:
        self._context.cancelJobGroup(self._run_id)

    def run(self) -> Iterator[SlotReport]:
        """Run all levels; the reports of a level come out when it has ended.

        Raises:
            SparkDrainError: see ``execute``.
        """
        for level in range(len(self._plan.levels)):
            if self._cancel.is_cancelled():
                raise Cancelled(self._run_id)
            self._set_job_group(level)
            self._progress.begin(level)
            try:
                reports = self._run_level(level)
            except JOB_FAILED as error:
                if self._cancel.is_cancelled():
                    raise Cancelled(self._run_id) from None
                if self._first is not None and self._first.failure is not None:
                    raise of_failure(self._first.failure) from None
                raise as_error(error, self._context.pythonExec, jvm_ended) from None
            self._progress.end(level, reports)
            yield from reports

    def _set_job_group(self, level: int) -> None:
        """Name this thread's Spark jobs; one name for all of a run, to cancel them by."""
        steps = self._progress.levels[level].steps
        self._context.setJobGroup(
            self._run_id, f"{self._job_name}: {steps}", interruptOnCancel=True
        )

    def _run_level(self, level: int) -> list[SlotReport]:
        inputs = sorted(
            {e.producer for e in self._plan.edges_into(level) if e.kind is not EdgeKind.SIDE}
        )
        task = LevelTask(
            self._run_id,
            self._plan_file,
            level,
            frozenset((producer, slot) for producer in inputs for slot in self._slots[producer]),
            self._layout,
            self._options,
            self._preparation,
            {
                side.edge: self._side_inputs[side.edge]
                for stage in self._plan.levels[level]
                for side in stage.side_inputs
                if side.edge in self._side_inputs
            },
            self._progress.endpoint,
            failures=None if self._first is None else self._first.endpoint,
        )
        sources = [exchange for producer in inputs for exchange in self._exchanges[producer]]
        if any(restriction_edges(stage) for stage in self._plan.levels[level]):
            reports = self._run_balanced(task, sources)
        else:
            exchange = self._exchange(task, sources, self._layout.slots)
            self._exchanges[level] = [exchange]
            reports = self._reports(exchange)
        self._slots[level] = [report.slot for report in reports]
        self._attempts.extend(report.inputs for report in reports)
        # What was reported counts (metrics, side inputs): it must be what is read later.
        self._attempts.append({(level, report.slot): report.attempt for report in reports})
        agree(self._attempts)
        self._publish_side_inputs(level, reports)
        return reports

    def _exchange(self, task: LevelTask, sources: list[Exchange], slots: int) -> Exchange:
        layout = self._layout
        return Exchange(
            self._context,
            task,
            sources,
            layout.partitions,
            [layout.shard(task.level, slot) for slot in range(slots)],
            self._partitioner,
        )

    def _reports(self, exchange: Exchange) -> list[SlotReport]:
        """Run an exchange's tasks; what they report."""
        return list(map(SlotReport.decode, reports_in(exchange.read([self._layout.reports]))))

    def _run_balanced(self, task: LevelTask, sources: list[Exchange]) -> list[SlotReport]:
        """Run a level in which slots may give restrictions to tasks beside them."""
        run = BalancedRun(
            self._context,
            self._layout.slots,
            lambda helper: self._exchange(
                replace(task, producers=frozenset(), balancer=run.endpoint, helper=helper), [], 1
            ),
            self._reports,
            lambda: self._set_job_group(task.level),
        )
        with run:
            main = self._exchange(replace(task, balancer=run.endpoint), sources, self._layout.slots)
            reports = run.wait(self._reports(main))
        self._exchanges[task.level] = [main, *run.exchanges]
        return reports

    def _publish_side_inputs(self, level: int, reports: list[SlotReport]) -> None:
        edges = [e for e in self._plan.edges_out_of(level) if e.kind is EdgeKind.SIDE]
        if not edges:
            return
        writers: dict[int, set[tuple[int, int]]] = {}
        for report in reports:
            for partition in report.side_bytes:
                writers.setdefault(partition, set()).add((level, report.slot))
        mergers = {
            edge.id: SortMerger(self._options.memory_bytes, _driver_scratch) for edge in edges
        }
        for partition, producers in sorted(writers.items()):
            complete = Completeness(frozenset(producers))
            self._collect(level, partition, complete, mergers)
        for edge in edges:
            merger = mergers[edge.id]
            self._side_inputs[edge.id] = FileBroadcast(
                self._context, partial(_write_sorted, merger)
            )
            merger.close()

    def _collect(
        self,
        level: int,
        partition: int,
        complete: Completeness,
        mergers: dict[Any, SortMerger],
    ) -> None:
        sent = self._exchanges[level]
        for record in chain.from_iterable(exchange.read([partition]) for exchange in sent):
            message = decode(record)
            if isinstance(message, EndMessage):
                complete.saw_end(message)
            elif isinstance(message, Block):
                size = len(message.payload)
                complete.saw_block(
                    message.level, message.producer, message.edge, message.sequence, size
                )
                mergers[message.edge].add(bytes(message.payload))
        self._attempts.append(complete.verify())
        agree(self._attempts)

    def close(self) -> None:
        """Give shuffle files and broadcasts back."""
        if self._first is not None:
            self._first.close()
        # Without a JVM there are none.
        with contextlib.suppress(*JVM_LOST):
            for exchanges in self._exchanges.values():
                for exchange in exchanges:
                    exchange.drop()
            for side_input in self._side_inputs.values():
                side_input.drop()
            self._plan_file.drop()


def _write_sorted(merger: SortMerger, file: IO[bytes]) -> None:
    write_side_file(file, merger.sorted_groups())


def _driver_scratch() -> Path:
    return Path(tempfile.gettempdir())
