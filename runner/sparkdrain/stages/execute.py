"""Runs a pipeline from the driver: translate, then one Spark job per level."""

from __future__ import annotations

import itertools
import logging
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from apache_beam.portability.api import beam_job_api_pb2, beam_runner_api_pb2, metrics_pb2

from sparkdrain.errors import Cancelled, TruncatedInput
from sparkdrain.graph.translate import translate
from sparkdrain.metrics.merge import Metrics
from sparkdrain.stages.cluster import spark_context
from sparkdrain.stages.levels import LevelRunner
from sparkdrain.stages.progress import Progress, steps_of
from sparkdrain.stages.progress_display import shown
from sparkdrain.stages.workers import job_context

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from sparkdrain.drain.progress import DrainProgress
    from sparkdrain.drain.signal import DrainSignal
    from sparkdrain.options import Settings
    from sparkdrain.stages.warned import Warned
    from sparkdrain.types import Artifact, CancelToken

_LOGGER = logging.getLogger(__name__)
_RUNS = itertools.count(1)
_NOTHING_TO_CUT = (
    "A batch job has nothing to cut: drained, it reads all of its input, and nothing fires early."
)
_BASIC = beam_job_api_pb2.JobMessage.JOB_MESSAGE_BASIC
_WARNING = beam_job_api_pb2.JobMessage.JOB_MESSAGE_WARNING


class Observer(Protocol):
    """Who wants to hear how a job goes."""

    def message(self, importance: int, text: str) -> None:
        """Take a message; ``importance`` is ``JobMessage.MessageImportance``."""

    def counted(self, outcome: Outcome) -> None:
        """Take the metrics of a job that goes on."""

    def draining(self, progress: DrainProgress) -> None:
        """Take how far the drain of the job has come."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What is left of a job that ended well."""

    attempted: list[metrics_pb2.MonitoringInfo]
    committed: list[metrics_pb2.MonitoringInfo]
    drained: bool = False


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
    """Run ``pipeline`` to its end, a drain or not: there is nothing to cut in bounded input.

    A job that loses shuffle files is run again from the start, ``settings.job_attempts`` times
    in all: user code may be random, so a part of a level is never run again on its own.

    Raises:
        UserCodeError: user code raised; the message starts with its exception.
        WorkerLost: a worker process ended.
        TruncatedInput: data was lost in every attempt.
        Cancelled: ``cancel`` was called.
        BadSetup: Spark could not be used.
    """
    drain.inquiry.decline(_NOTHING_TO_CUT)
    plan = translate(pipeline)
    context, preparation = job_context(spark_context(settings), pipeline_options, artifacts)
    progress = Progress(job_id, steps_of(plan), time.monotonic)

    def start(run_id: str) -> LevelRunner:
        return LevelRunner(context, plan, settings, run_id, job_name, cancel, preparation, progress)

    with shown(progress, settings.progress, context):
        return _run(start, job_id, settings.job_attempts, observer, cancel)


def _run(
    start: Callable[[str], LevelRunner],
    job_id: str,
    attempts: int,
    observer: Observer,
    cancel: CancelToken,
) -> Outcome:
    metrics = Metrics()
    heard: set[Warned] = set()
    for attempt in range(1, attempts + 1):
        if cancel.is_cancelled():
            raise Cancelled(job_id)
        runner = start(f"{job_id}/{next(_RUNS)}")
        metrics.begin_attempt()
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
            observer.message(_WARNING, f"{loss}; the job is run again (attempt {attempt + 1})")
        else:
            return Outcome(metrics.attempted(), metrics.committed())
        finally:
            runner.close()
    raise AssertionError
