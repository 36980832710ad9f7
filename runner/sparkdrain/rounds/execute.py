"""Runs a streaming pipeline from the driver: translate, then round after round."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from apache_beam.portability.api import metrics_pb2

from sparkdrain.graph.translate import translate
from sparkdrain.metrics.merge import merge
from sparkdrain.rounds.clock import WallClock
from sparkdrain.rounds.levels import SparkLevels
from sparkdrain.rounds.loop import RoundLoop
from sparkdrain.rounds.pace import Pace
from sparkdrain.rounds.schedule import Schedule
from sparkdrain.rounds.tell import Teller
from sparkdrain.rounds.test_stream import play_for
from sparkdrain.shuffle.outbox import Layout
from sparkdrain.stages.cluster import spark_context
from sparkdrain.stages.execute import Outcome
from sparkdrain.stages.task import TaskOptions
from sparkdrain.stages.workers import job_context

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from apache_beam.portability.api import beam_runner_api_pb2

    from sparkdrain.drain.signal import DrainSignal
    from sparkdrain.options import Settings
    from sparkdrain.stages.execute import Observer
    from sparkdrain.types import Artifact, CancelToken

_RUNS = itertools.count(1)


def execute(
    pipeline: beam_runner_api_pb2.Pipeline,
    settings: Settings,
    *,
    job_id: str,
    job_name: str,
    pipeline_options: Mapping[str, Any],
    artifacts: Sequence[Artifact],
    observer: Observer,
    cancel: CancelToken,
    drain: DrainSignal,
) -> Outcome:
    """Run ``pipeline`` until nothing is left to do, or it is cancelled.

    Raises:
        UserCodeError: user code raised; the message starts with its exception.
        WorkerLost: a process with state ended.
        TruncatedInput: a round lost data in every attempt.
        Cancelled: ``cancel`` was called.
        BadSetup: Spark could not be used.
    """
    del drain  # until rounds know how to
    plan = translate(pipeline, streaming=True)
    context, preparation = job_context(
        spark_context(settings), pipeline_options, artifacts, streaming=True
    )
    slots = settings.slots or context.defaultParallelism
    options = TaskOptions(
        settings.block_kb << 10, settings.shuffle_memory_mb << 20, settings.compiled_stages
    )
    run_id = f"{job_id}/{next(_RUNS)}"
    layout = Layout(slots, len(plan.levels), 0)
    levels = SparkLevels(context, plan, layout, options, run_id, job_name, preparation, cancel)
    schedule = Schedule(plan, slots)
    play, clock = play_for(plan, WallClock())
    teller = Teller(settings.progress, lambda: observer.counted(_counted(schedule)))
    try:
        RoundLoop(
            schedule,
            levels,
            clock,
            Pace(settings.round_ms / 1000),
            play,
            cancel,
            settings.round_attempts,
            teller.tell,
        ).run()
    finally:
        levels.close()
    return _counted(schedule)


def _counted(schedule: Schedule) -> Outcome:
    """What counts so far; of rounds that were undone nothing is left."""
    infos = merge(
        metrics_pb2.MonitoringInfo.FromString(info)
        for report in schedule.reports()
        for info in report.metrics
    )
    return Outcome(infos, infos)
