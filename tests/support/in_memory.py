"""Runs a plan slot by slot in this process, with lists for shuffles: the engine without Spark."""

from __future__ import annotations

import itertools
import shutil
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from apache_beam.transforms import environments

from sparkdrain.graph.exchanges import as_written
from sparkdrain.graph.plan import EdgeKind, Plan
from sparkdrain.graph.translate import translate
from sparkdrain.shuffle.blocks import Block, Report, decode
from sparkdrain.shuffle.outbox import Outbox, ShuffleLayout
from sparkdrain.shuffle.sort_merging import SortMerger
from sparkdrain.side_inputs.file import SideFile, write_side_file
from sparkdrain.stages.batch.slot import BatchSlot
from sparkdrain.stages.shards.task_options import TaskOptions
from sparkdrain.stages.telling.report import SlotReport

if TYPE_CHECKING:
    import apache_beam as beam

    from sparkdrain.fnapi.harness import Outside

DEFAULTS = TaskOptions(block_bytes=1 << 20, memory_bytes=256 << 20, compiled=True)


def run_in_memory(
    pipeline: beam.Pipeline,
    slots: int = 2,
    options: TaskOptions = DEFAULTS,
    environment: environments.Environment | None = None,
    outside: Outside | None = None,
) -> list[SlotReport]:
    """Run a pipeline to its end; the reports of all slots."""
    environment = environment or environments.EmbeddedPythonEnvironment()
    proto = pipeline.to_runner_api(default_environment=environment)
    written = as_written(proto, pipeline.options.get_all_options())
    run = InMemoryRun(translate(written), slots, options, outside)
    try:
        return run.run()
    finally:
        shutil.rmtree(run.directory)


class InMemoryRun:
    """One run of a plan. ``partitions`` holds what each level sent."""

    def __init__(
        self, plan: Plan, slots: int, options: TaskOptions, outside: Outside | None = None
    ) -> None:
        self.outside = outside
        self.plan = plan
        self.options = options
        self.layout = ShuffleLayout(slots, len(plan.levels), 4)
        self.partitions: dict[int, dict[int, list[bytes]]] = {}
        self.side_files: dict[int, SideFile] = {}
        self.directory = Path(tempfile.mkdtemp(prefix="in-memory-"))
        self.attempts = itertools.count(1)

    def run(self) -> list[SlotReport]:
        return [
            report for level in range(len(self.plan.levels)) for report in self.run_level(level)
        ]

    def run_level(self, level: int) -> list[SlotReport]:
        sent = self.partitions[level] = defaultdict(list)
        for slot in range(self.layout.slots):
            self.run_slot(level, slot, sent)
        self._publish(level)
        reports = map(decode, sent[self.layout.reports])
        return [SlotReport.decode(r.payload) for r in reports if isinstance(r, Report)]

    def run_slot(self, level: int, slot: int, sent: Any) -> None:
        edges = [e for e in self.plan.edges_into(level) if e.kind is not EdgeKind.SIDE]
        producers = {edge.producer for edge in edges}
        partition = self.layout.shard(level, slot)
        records = [r for producer in producers for r in self.partitions[producer][partition]]
        outbox = Outbox(
            self.layout,
            level,
            slot,
            next(self.attempts),
            lambda target, record: sent[target].append(record),
        )
        expected = frozenset((p, s) for p in producers for s in range(self.layout.slots))
        BatchSlot(
            self.plan,
            level,
            slot,
            expected,
            outbox,
            self.options,
            self.side_files.get,
            lambda: self.directory,
            outside=self.outside,
        ).run(iter(records))

    def _publish(self, level: int) -> None:
        for edge in self.plan.edges_out_of(level):
            if edge.kind is not EdgeKind.SIDE:
                continue
            merger = SortMerger(self.options.memory_bytes, lambda: self.directory)
            for bucket in range(self.layout.side_buckets):
                for record in map(decode, self.partitions[level][self.layout.side(bucket)]):
                    if isinstance(record, Block) and record.edge == edge.id:
                        merger.add(bytes(record.payload))
            path = self.directory / f"side-{edge.id}"
            with path.open("wb") as file:
                write_side_file(file, merger.sorted_groups())
            self.side_files[edge.id] = SideFile.at(path)
