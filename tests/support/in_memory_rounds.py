"""Runs a plan in rounds in this process, with lists for shuffles: streaming without Spark."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from apache_beam.portability.api import metrics_pb2
from apache_beam.transforms import environments

from sparkdrain.drain.phases import RESUMED, DrainPhase, drain_walk
from sparkdrain.graph.translate import translate
from sparkdrain.rounds.clock import WallClock
from sparkdrain.rounds.driver.checkpointing import Checkpointing
from sparkdrain.rounds.driver.checkpoints import NoCheckpoints
from sparkdrain.rounds.driver.drain_watch import DrainWatch
from sparkdrain.rounds.driver.durable import DurableJob, go_on
from sparkdrain.rounds.driver.inheritances import DriverState
from sparkdrain.rounds.driver.loop import RoundLoop
from sparkdrain.rounds.driver.pace import Pace
from sparkdrain.rounds.driver.schedule import Schedule
from sparkdrain.rounds.driver.test_stream import play_for
from sparkdrain.rounds.messages import RoundHeader, RoundReport
from sparkdrain.rounds.slots.checkpoint_place import CheckpointPlace
from sparkdrain.rounds.slots.service import open_slot
from sparkdrain.rounds.slots.slot import RoundSlot
from sparkdrain.shuffle.blocks import Report, decode
from sparkdrain.shuffle.outbox import ShuffleLayout
from sparkdrain.stages.shards.task_options import TaskOptions
from sparkdrain.types import CancelToken

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import apache_beam as beam

    from sparkdrain.checkpoints.manifest import Manifest
    from sparkdrain.fnapi.harness import Outside
    from sparkdrain.graph.plan import Plan

DEFAULTS = TaskOptions(block_bytes=1 << 20, memory_bytes=256 << 20, compiled=True)


class Unsurveyed(DrainWatch):
    """Has slots count what is left on request only.

    In a survey all levels run. Without any, levels run only if they have something to do.
    """

    def _begin(self, now: int) -> None:
        pass


def run_in_rounds(pipeline: beam.Pipeline, **settings: Any) -> InMemoryRounds:
    """Run a pipeline in rounds to its end; see ``InMemoryRounds``."""
    rounds = InMemoryRounds(plan_of(pipeline), **settings)
    try:
        rounds.run_to_end()
    finally:
        rounds.close()
    return rounds


def plan_of(pipeline: beam.Pipeline, environment: environments.Environment | None = None) -> Plan:
    """The plan for rounds of a pipeline."""
    environment = environment or environments.EmbeddedPythonEnvironment()
    proto = pipeline.to_runner_api(default_environment=environment)
    return translate(proto, streaming=True)


def element_counts(rounds: InMemoryRounds) -> dict[Any, bytes]:
    """How many elements each PCollection had, by its labels; encoded."""
    infos = [
        metrics_pb2.MonitoringInfo.FromString(info)
        for report in rounds.schedule.reports()
        for info in report.metrics
    ]
    return {
        tuple(sorted(info.labels.items())): info.payload
        for info in infos
        if info.urn == "beam:metric:element_count:v1"
    }


class InMemoryRounds:
    """All slots of all levels in this process.

    Args:
        plan: the job.
        slots: per level.
        fail: called with every header before the slot runs; what it raises ends the attempt.
        seconds, elements: budget of a round.
        durable: keeps the job's state; it goes on from the newest checkpoint. Until then there
            are no slots: they are made when they run, as in hosts.
        interval: between checkpoints, microseconds.
        pace: in place of the budget.
        stopwatch: seconds that pass.
        deliver: called with every header and the records for its slot; gives those that arrive.
        outside: where stages of other environments run.
    """

    def __init__(
        self,
        plan: Plan,
        slots: int = 2,
        options: TaskOptions = DEFAULTS,
        *,
        clock: Any = None,
        play: Any = None,
        fail: Callable[[RoundHeader], None] = lambda header: None,
        seconds: float = 0.05,
        elements: int = 10_000,
        attempts: int = 3,
        durable: DurableJob | None = None,
        interval: int = 0,
        pace: Pace | None = None,
        stopwatch: Callable[[], float] = time.monotonic,
        deliver: Callable[[RoundHeader, list[bytes]], list[bytes]] = lambda _, records: records,
        outside: Outside | None = None,
    ) -> None:
        self._outside = outside
        self.deliver = deliver
        self.plan = plan
        self.options = options
        self.layout = ShuffleLayout(slots, len(plan.levels), 4)
        self.directory = Path(tempfile.mkdtemp(prefix="rounds-"))
        # What each level sent in this round, by partition.
        self.partitions: dict[int, dict[int, list[bytes]]] = {}
        self.fail = fail
        self.rounds: list[list[RoundReport]] = []
        self.schedule = Schedule(plan, slots)
        self._place: CheckpointPlace | None = None
        self._durable = durable
        self._slots: dict[tuple[int, int], RoundSlot] = {}
        script, script_clock = play_for(plan, clock or WallClock())
        checkpoints: Any = NoCheckpoints()
        self._taken: Manifest | None = None
        self._phase = DrainPhase.READING
        if durable is not None:
            taken = self._taken = durable.take(resume=True)
            if taken is not None:
                self._phase = go_on(taken, self.schedule, play or script)
            self._place = CheckpointPlace(durable.paths, durable.epoch)
            checkpoints = Checkpointing(interval, durable, number=durable.number, phase=self._phase)
        else:
            self._slots = {
                (level, slot): RoundSlot(
                    plan,
                    level,
                    slot,
                    self.layout,
                    options,
                    self._home(slot),
                    stopwatch,
                    outside=outside,
                )
                for level in range(len(plan.levels))
                for slot in range(slots)
            }
        if pace is None:
            pace = Pace(seconds * 2, least_elements=1)
            pace.elements = elements
        self.loop = RoundLoop(
            self.schedule,
            self,
            clock or script_clock,
            pace,
            play or script,
            CancelToken(),
            attempts,
            lambda schedule, reports: self.rounds.append(reports),
            checkpoints,
            Unsurveyed(),
            stopwatch=stopwatch,
            phases=drain_walk(RESUMED.get(self._phase, self._phase)),
        )

    def _home(self, slot: int) -> Path:
        home = self.directory / str(slot)
        home.mkdir(exist_ok=True)
        return home

    def run_to_end(self, seconds: float = 60) -> None:
        """Run to the end of the job, for so many seconds of CPU time at most, or ten times that."""
        end, last = time.process_time() + seconds, time.monotonic() + 10 * seconds
        tell = self.loop.tell

        def watch(schedule: Any, reports: Any) -> None:
            tell(schedule, reports)
            assert time.process_time() < end, schedule.holds()
            assert time.monotonic() < last, schedule.holds()

        self.loop.tell = watch
        if self._durable is None:
            self.loop.run()
            return
        if self._taken is not None and (drain := DriverState.of(self._taken).drain) is not None:
            self.loop.drain.signal.request(drain)
        if self.is_over():
            return
        with self._durable.watch(self.loop.cancel) as lease:
            self.loop.cancel, self.loop.before_round = lease.cancel, lease.check
            self.loop.run()

    def is_over(self) -> bool:
        """Whether the job had come to its end before."""
        return self._phase.is_over

    def slots(self) -> list[RoundSlot]:
        return list(self._slots.values())

    def close(self) -> None:
        for slot in self._slots.values():
            slot.close()
        # Uploads that were given up remove what they had at the same time.
        shutil.rmtree(self.directory, ignore_errors=True)

    # --- Levels -------------------------------------------------------------------------------

    def run(self, headers: Sequence[RoundHeader]) -> list[RoundReport]:
        reports = []
        sent: dict[int, list[bytes]] = defaultdict(list)
        for header in headers:
            self.fail(header)
            own = self.layout.shard(header.level, header.slot)
            producers = sorted({level for level, _ in header.expected})
            inbox = [r for producer in producers for r in self.partitions[producer].get(own, ())]
            self._slot(header).run(
                header,
                iter(self.deliver(header, inbox)),
                lambda target, record: sent[target].append(record),
            )
        for record in sent.pop(self.layout.reports):
            message = decode(record)
            assert isinstance(message, Report)
            reports.append(RoundReport.decode(message.payload))
        self.partitions[headers[0].level] = sent
        return reports

    def _slot(self, header: RoundHeader) -> RoundSlot:
        ident = header.level, header.slot
        if ident not in self._slots:
            home = self._home(header.slot)
            self._slots[ident] = open_slot(
                self.plan, header, self.layout, self.options, home, self._place, self._outside
            )
        return self._slots[ident]

    def reopen(self, slots: frozenset[int]) -> None:
        """End slots; they are made anew when they run, in another place."""
        for level, slot in list(self._slots):
            if slot in slots:
                self._slots.pop((level, slot)).close()
        for slot in slots:
            shutil.rmtree(self._home(slot), ignore_errors=True)

    def end_round(self) -> None:
        self.partitions.clear()

    def check_hosts(self) -> None:
        """There are none."""

    def on_loss(self, tell: Callable[[], object]) -> None:
        """There are none."""
