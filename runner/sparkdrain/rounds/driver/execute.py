"""Runs a streaming pipeline from the driver: translate, then round after round."""

from __future__ import annotations

import contextlib
import itertools
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from apache_beam.metrics.monitoring_infos import int64_user_counter
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.portability.api import beam_job_api_pb2

from sparkdrain.coordination.stores import STORES
from sparkdrain.drain.limits import Limits
from sparkdrain.drain.phases import RESUMED, DrainPhase, drain_walk
from sparkdrain.errors import (
    Fenced,
    HostMissing,
    RoundLimitExceeded,
    SparkDrainError,
    SparkLost,
    TruncatedInput,
    WorkerLost,
)
from sparkdrain.graph.environments import staged_outside
from sparkdrain.graph.exchanges import as_written
from sparkdrain.graph.identity import identity
from sparkdrain.graph.notices import unkept_hints
from sparkdrain.graph.translate import translate
from sparkdrain.invocation import Outcome
from sparkdrain.rounds.clock import WallClock
from sparkdrain.rounds.driver.checkpointing import Checkpointing
from sparkdrain.rounds.driver.checkpoints import NoCheckpoints
from sparkdrain.rounds.driver.contender import DurableContender
from sparkdrain.rounds.driver.drain_watch import DrainWatch
from sparkdrain.rounds.driver.durable import DurableJob, go_on
from sparkdrain.rounds.driver.inheritances import DriverState
from sparkdrain.rounds.driver.levels import SparkLevels
from sparkdrain.rounds.driver.locations import Locations
from sparkdrain.rounds.driver.loop import RoundLoop
from sparkdrain.rounds.driver.moves import MoveLog, Newcomers, SlotMoves
from sparkdrain.rounds.driver.pace import Pace
from sparkdrain.rounds.driver.placement import Placement, holdings, too_few_locations
from sparkdrain.rounds.driver.schedule import Schedule
from sparkdrain.rounds.driver.supply import HostSupply
from sparkdrain.rounds.driver.tell import Openings, Teller, refused_timers
from sparkdrain.rounds.driver.test_stream import play_for
from sparkdrain.rounds.driver.warm import warm_workers, warming
from sparkdrain.rounds.slots.checkpoint_place import CheckpointPlace
from sparkdrain.rounds.slots.report import NAMESPACE
from sparkdrain.stages.cluster.ask import ask, ask_in_group, stop_group
from sparkdrain.stages.cluster.context import is_ours, spark_context
from sparkdrain.stages.cluster.executors import await_executors, executors, hazards, lost_paths
from sparkdrain.stages.cluster.parking import ParkedExecutors, is_parked, kept_executors
from sparkdrain.stages.spark.errors import JVM_LOST
from sparkdrain.stages.spark.session import is_usable
from sparkdrain.stages.telling.log_channel import SampleMessages
from sparkdrain.stages.workers.pool import job_context
from sparkdrain.standby.leadership import SteppedDown, check_reach

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark import SparkContext

    from sparkdrain.checkpoints.manifest import Manifest
    from sparkdrain.graph.plan import Plan
    from sparkdrain.hosts.executor import Executor
    from sparkdrain.invocation import Invocation
    from sparkdrain.rounds.driver.checkpoints import Checkpoints
    from sparkdrain.rounds.messages import RoundReport
    from sparkdrain.stages.workers.preparation import Preparation
    from sparkdrain.types import CancelToken

_BASIC: Final = beam_job_api_pb2.JobMessage.JOB_MESSAGE_BASIC
_WARNING: Final = beam_job_api_pb2.JobMessage.JOB_MESSAGE_WARNING
_RUNS = itertools.count(1)
# What ends a life of a job, and not the job, if its state is durable.
_LOSSES = (HostMissing, WorkerLost, SparkLost, TruncatedInput, RoundLimitExceeded)


def execute(invocation: Invocation) -> Outcome:
    """Run a job until nothing is left to do, or it is cancelled.

    If its state is durable, a job that loses processes or data goes on from its newest checkpoint,
    as often as it makes a new one, and ``--recoveries`` times in a row without.

    Raises:
        UserCodeError: user code raised; the message starts with its exception.
        WorkerLost: a process with state ended.
        SparkLost: Spark's own process ended.
        TruncatedInput: a round lost data in every attempt.
        RoundLimitExceeded: a round took longer than it may.
        CheckpointRefused: there is a checkpoint that the job cannot go on from.
        CheckpointFailed: state could not be made durable.
        Fenced: another driver has taken the job.
        EndedElsewhere: the job has ended under another driver while this one waited.
        Cancelled: ``invocation.cancel`` was called.
        BadSetup: Spark could not be used.
    """
    warn = partial(invocation.observer.message, _WARNING)
    for hint in unkept_hints(invocation.pipeline):
        warn(hint)
    written = as_written(invocation.pipeline, invocation.pipeline_options)
    plan = translate(written, streaming=True)
    run_id = f"{invocation.job_id}/{next(_RUNS)}"
    durable = _durable(invocation, plan, run_id)
    while True:
        context = spark_context(invocation.settings)
        try:
            return _execute_on(context, invocation, plan, run_id, durable)
        except (Fenced, SteppedDown) as error:
            if not invocation.leadership.goes_back(error):
                raise
            # Its executors go back; the next session is another.
            if is_ours(context) and is_parked(context.getConf()):
                context.stop()


def _durable(invocation: Invocation, plan: Plan, run_id: str) -> DurableJob | None:
    """The job's checkpoints, if it makes any."""
    settings = invocation.settings
    if not settings.checkpoint_dir:
        return None
    return DurableJob.at(
        settings.checkpoint_dir,
        invocation.job_name,
        run_id,
        identity(plan),
        0,
        settings.checkpoints_kept,
        PipelineOptions.from_dictionary(dict(invocation.pipeline_options)),
        invocation.held,
    )


def _execute_on(
    session: SparkContext,
    invocation: Invocation,
    plan: Plan,
    run_id: str,
    durable: DurableJob | None,
) -> Outcome:
    """Run the job in a session, once this driver leads it."""
    settings = invocation.settings
    warn = partial(invocation.observer.message, _WARNING)
    context, preparation = job_context(
        session,
        invocation.pipeline_options,
        invocation.artifacts,
        invocation.directory,
        streaming=True,
        outside=staged_outside(invocation.pipeline),
    )
    for hazard in [*hazards(context), *lost_paths(context, invocation.pipeline)]:
        warn(hazard)
    if durable is not None:
        durable.check(resume=settings.resume or settings.standby)
        for complaint in dict.fromkeys(
            durable.keep_to(group=settings.checkpoint_access == "group")
        ):
            warn(complaint)
    if settings.standby and durable is not None:
        check_reach(STORES.reach(settings.metadata_store), context.master)
        for text in kept_executors(context):
            warn(text)
        warm_workers(context, settings.slots or context.defaultParallelism, plan, preparation)
        parked = ParkedExecutors(context)
        contender = DurableContender(durable, lambda: is_usable(context), parked)
        invocation.leadership.wait(contender, invocation.cancel)
        parked.summon()
    with warming(context, plan, preparation, f"{run_id}/warm") as warm:
        await_executors(context, invocation.cancel, warn, warm)
    slots = settings.slots or context.defaultParallelism
    if durable is not None:
        durable.slots = slots
    openings = Openings(partial(invocation.observer.message, _BASIC), warn)
    locations = Locations(settings.location, preparation, partial(ask, context), warn)
    locations.learn(found := executors(context))
    placement = Placement(slots, warm_copies=settings.warm_copies, located=locations.located)
    if text := too_few_locations(set(map(locations.of, found)), settings.warm_copies):
        warn(text)
    return _StreamingJob(
        invocation,
        plan,
        context,
        preparation,
        run_id,
        durable,
        placement,
        locations,
        openings,
        MoveLog(invocation.observer.moved),
        SampleMessages(invocation.observer.message),
    ).run()


@dataclass(slots=True)
class _StreamingJob:
    """A job, over all of its lives."""

    invocation: Invocation
    plan: Plan
    context: SparkContext
    preparation: Preparation
    run_id: str
    durable: DurableJob | None
    placement: Placement
    locations: Locations
    openings: Openings
    log: MoveLog
    samples: SampleMessages

    def run(self) -> Outcome:
        try:
            return self._all_lives()
        finally:
            if self.durable is not None:
                self.durable.settle()

    def _all_lives(self) -> Outcome:
        settings, observer = self.invocation.settings, self.invocation.observer
        left = settings.recoveries
        lost: SparkDrainError | None = None
        while True:
            taken = self._take()
            if lost is not None:
                start = "the beginning" if taken is None else f"checkpoint {taken.number}"
                observer.message(_WARNING, f"The job goes on from {start}: {lost}")
            before = self._newest()
            try:
                return self._watched(taken)
            except _LOSSES as error:
                left = settings.recoveries if self._newest() > before else left
                if self.durable is None or not left or not is_usable(self.context):
                    raise self._for_good(error) from None
                left, lost = left - 1, error

    def _watched(self, taken: Manifest | None) -> Outcome:
        """A life that ends when the job is another driver's."""
        cancel = self.invocation.cancel
        if self.durable is None:
            return self._live(taken, cancel)
        with (
            self.invocation.leadership.lead(cancel) as led,
            self.durable.ours(),
            self.durable.watch(led) as watch,
        ):
            return self._live(taken, watch.cancel, watch.check)

    def _for_good(self, error: SparkDrainError) -> SparkDrainError:
        """``error``, which ends the program's part in the job, and how the job goes on."""
        if self.durable is None:
            goes_on = (
                "The state of the job was in its processes and on local disks, and is gone: "
                "started again, the job begins anew. With --checkpoint_dir it would go on."
            )
        elif not self._newest():
            goes_on = (
                f"There is no checkpoint in {self.durable.paths.folder} yet: started again, the "
                "job begins anew."
            )
        else:
            goes_on = (
                "The state of the job is not lost. Start the program again with --resume: the job "
                f"goes on from checkpoint {self._newest()} in {self.durable.paths.folder}."
            )
        return type(error)(f"{error}\n\n{goes_on}")

    def _take(self) -> Manifest | None:
        observer = self.invocation.observer
        if self.durable is None:
            observer.began(0)
            return None
        leadership = self.invocation.leadership
        leadership.check()
        settings = self.invocation.settings
        taken = self.durable.take(resume=settings.resume or settings.standby)
        leadership.took(self.durable.epoch)
        is_over = taken is not None and DriverState.of(taken).phase.is_over
        if is_over and settings.standby:
            return taken  # another driver has brought it to its end, and told so
        observer.began(self.durable.epoch)
        if taken is None:
            folder = self.durable.paths.folder
            observer.message(_BASIC, f"{folder} has no checkpoint of this job: it begins anew.")
        elif (drain := DriverState.of(taken).drain) is not None:
            self.invocation.drain.request(drain)
        return taken

    def _newest(self) -> int:
        return 0 if self.durable is None else self.durable.number

    def _live(
        self,
        taken: Manifest | None,
        cancel: CancelToken,
        before_round: Callable[[], None] = lambda: None,
    ) -> Outcome:
        """Run rounds from a checkpoint, or from the beginning, to the end of the job."""
        settings, observer = self.invocation.settings, self.invocation.observer
        schedule = Schedule(self.plan, self.placement.slots)
        play, clock = play_for(self.plan, WallClock())
        phase = DrainPhase.READING if taken is None else go_on(taken, schedule, play)
        if phase.is_over:
            return self._counted(schedule, phase)
        self._look_for_state(taken)
        place = None
        if self.durable is not None:
            place = CheckpointPlace(self.durable.paths, self.durable.epoch, settings.state_dir)
        levels = SparkLevels(
            self.context,
            self.plan,
            self.invocation,
            self.run_id,
            self.preparation,
            cancel,
            schedule.number + 1,
            place,
            self.placement,
            self.samples,
        )
        self.log.displaced(self.placement.displaced, self.placement.lost)
        newcomers = Newcomers(self.placement, self._executors)
        moves = None if place is None else self._moves(newcomers, levels, place)
        walk = drain_walk(RESUMED[phase])
        try:
            RoundLoop(
                schedule,
                levels,
                clock,
                Pace(settings.round_ms / 1000),
                play,
                cancel,
                settings.round_attempts,
                self._told(schedule, newcomers),
                self._checkpoints(phase),
                DrainWatch(
                    self.invocation.drain,
                    observer.draining,
                    settings.drain_timer_repeats,
                    Limits.in_options(settings),
                ),
                before_round=before_round,
                phases=walk,
                moves=moves,
            ).run()
        finally:
            if moves is not None:
                moves.close()
            levels.close()
        for line in refused_timers(schedule):
            observer.message(_WARNING, line)
        return self._counted(schedule, walk.state)

    def _told(
        self, schedule: Schedule, newcomers: Newcomers
    ) -> Callable[[Schedule, list[RoundReport]], None]:
        """What hears of every committed round."""
        observer = self.invocation.observer

        def publish() -> None:
            observer.counted(self._counted(schedule, DrainPhase.READING))
            if self.durable is None:
                newcomers.tell(partial(observer.message, _WARNING))

        teller = Teller(self.invocation.settings.progress, publish, self.placement.told)

        def tell(schedule: Schedule, reports: list[RoundReport]) -> None:
            self.openings.heard(reports)
            self.log.committed()
            teller.tell(schedule, reports)

        return tell

    def _moves(
        self, newcomers: Newcomers, levels: SparkLevels, place: CheckpointPlace
    ) -> SlotMoves:
        supply = None
        if place.state_dir:
            group = f"{self.run_id}/files"
            supply = HostSupply(
                partial(ask_in_group, self.context, group),
                partial(stop_group, self.context, group),
                place,
                self.preparation,
            )
        return SlotMoves(
            self.placement,
            newcomers,
            self._executors,
            levels.reopen,
            supply,
            self.log,
            partial(self.invocation.observer.message, _WARNING),
        )

    def _look_for_state(self, taken: Manifest | None) -> None:
        """Have slots placed where their state lies."""
        state_dir = self.invocation.settings.state_dir
        if taken is not None and state_dir:
            asked = partial(ask, self.context, self._executors())
            self.placement.held = holdings(
                taken, self.placement.slots, state_dir, asked, self.locations.located
            )

    def _executors(self) -> list[Executor]:
        # If Spark does not answer, the next round says why.
        with contextlib.suppress(*JVM_LOST):
            found = executors(self.context)
            self.locations.learn(found)
            return found
        return []

    def _checkpoints(self, phase: DrainPhase) -> Checkpoints:
        if self.durable is None:
            return NoCheckpoints()
        interval = 1000 * self.invocation.settings.checkpoint_ms
        return Checkpointing(interval, self.durable, number=self.durable.number, phase=phase)

    def _counted(self, schedule: Schedule, phase: DrainPhase) -> Outcome:
        """What counts so far; of rounds that were undone nothing is left."""
        counts = self.placement.counts() | self.openings.counts | self.log.counts()
        infos = schedule.metrics() + [
            int64_user_counter(NAMESPACE, name, count) for name, count in counts.items()
        ]
        return Outcome(infos, infos, drained=phase is DrainPhase.DRAINED)
