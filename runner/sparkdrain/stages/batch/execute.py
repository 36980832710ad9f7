"""Runs a pipeline from the driver: translate, then one Spark job per level."""

from __future__ import annotations

import itertools
import time
from functools import partial
from typing import TYPE_CHECKING

from apache_beam.portability.api import beam_job_api_pb2

from sparkdrain.errors import Cancelled, TruncatedInput
from sparkdrain.graph.environments import staged_outside
from sparkdrain.graph.exchanges import as_written
from sparkdrain.graph.notices import unkept_hints
from sparkdrain.graph.translate import translate
from sparkdrain.invocation import Outcome
from sparkdrain.metrics.merge import Metrics
from sparkdrain.stages.batch.levels import LevelRunner
from sparkdrain.stages.cluster.context import spark_context
from sparkdrain.stages.cluster.executors import await_executors, lost_paths
from sparkdrain.stages.telling.progress import JobProgress, steps_of
from sparkdrain.stages.telling.progress_display import shown
from sparkdrain.stages.workers.pool import job_context

if TYPE_CHECKING:
    from collections.abc import Callable

    from apache_beam.portability.api import metrics_pb2

    from sparkdrain.invocation import Invocation
    from sparkdrain.stages.telling.report import Warned

_RUNS = itertools.count(1)
_NOTHING_TO_CUT = (
    "A batch job has nothing to cut: drained, it reads all of its input, and nothing fires early."
)
_WARNING = beam_job_api_pb2.JobMessage.JOB_MESSAGE_WARNING


def execute(invocation: Invocation) -> Outcome:
    """Run a job to its end, a drain or not: there is nothing to cut in bounded input.

    A job that loses shuffle files is run again from the start, ``--job_attempts`` times in all:
    user code may be random, so a part of a level is never run again on its own.

    Raises:
        UserCodeError: user code raised; the message starts with its exception.
        WorkerLost: a worker process ended.
        SparkLost: Spark's own process ended.
        TruncatedInput: data was lost in every attempt.
        Cancelled: ``invocation.cancel`` was called.
        BadSetup: Spark could not be used.
    """
    invocation.drain.inquiry.decline(_NOTHING_TO_CUT)
    warn = partial(invocation.observer.message, _WARNING)
    for hint in unkept_hints(invocation.pipeline):
        warn(hint)
    plan = translate(as_written(invocation.pipeline, invocation.pipeline_options))
    context, preparation = job_context(
        spark_context(invocation.settings),
        invocation.pipeline_options,
        invocation.artifacts,
        invocation.directory,
        outside=staged_outside(invocation.pipeline),
    )
    for path in lost_paths(context, invocation.pipeline):
        warn(path)
    await_executors(context, invocation.cancel, warn)
    invocation.observer.began(0)
    progress = JobProgress(invocation.job_id, steps_of(plan), time.monotonic)

    def start(run_id: str) -> LevelRunner:
        return LevelRunner(context, plan, invocation, run_id, preparation, progress)

    with shown(progress, invocation.settings.progress, context):
        return _run(start, invocation)


def _run(start: Callable[[str], LevelRunner], invocation: Invocation) -> Outcome:
    metrics = Metrics()
    heard: set[Warned] = set()
    attempts = invocation.settings.job_attempts
    for attempt in range(1, attempts + 1):
        if invocation.cancel.is_cancelled():
            raise Cancelled(invocation.job_id)
        runner = start(f"{invocation.job_id}/{next(_RUNS)}")
        metrics.begin_attempt()
        invocation.observer.counting(partial(_attempted, metrics, runner))
        try:
            for report in runner.run():
                metrics.add(report)
                for warned in report.warned:
                    if warned not in heard:
                        heard.add(warned)
                        warned.issue()
        except TruncatedInput as loss:
            if attempt == attempts:
                raise
            told = f"{loss}; the job is run again (attempt {attempt + 1})"
            invocation.observer.message(_WARNING, told)
        else:
            return Outcome(metrics.attempted(), metrics.committed())
        finally:
            # Of a level that has not ended, too: its slots have tried what they tell.
            _attempted(metrics, runner)
            invocation.observer.counting(metrics.attempted)
            runner.close()
    raise AssertionError


def _attempted(metrics: Metrics, runner: LevelRunner) -> list[metrics_pb2.MonitoringInfo]:
    """All that was tried so far, also by slots of a level that has not ended."""
    for report in runner.told():
        metrics.hear(report)
    return metrics.attempted()
