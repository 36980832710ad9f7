"""The seam between jobs and the engine that runs them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from apache_beam.portability.api import beam_runner_api_pb2, metrics_pb2

    from sparkdrain.drain.progress import DrainProgress
    from sparkdrain.drain.signal import DrainSignal
    from sparkdrain.options import Settings
    from sparkdrain.types import Artifact, CancelToken


class Observer(Protocol):
    """Who wants to hear how a job goes."""

    def message(self, importance: int, text: str) -> None:
        """Take a message; ``importance`` is ``JobMessage.MessageImportance``."""

    def counted(self, outcome: Outcome) -> None:
        """Take the metrics of a job that goes on."""

    def draining(self, progress: DrainProgress) -> None:
        """Take how far the drain of the job has come."""


class Outcome(Protocol):
    """What is left of a job that ended well."""

    @property
    def attempted(self) -> Sequence[metrics_pb2.MonitoringInfo]:
        """Metrics over everything that was tried."""

    @property
    def committed(self) -> Sequence[metrics_pb2.MonitoringInfo]:
        """Metrics over what counts."""

    @property
    def drained(self) -> bool:
        """Whether the job ended because it was drained: its sources were cut."""


class Engine(Protocol):
    """Runs pipelines; called from many threads, one per job."""

    def head_start(self, settings: Settings) -> None:
        """Begin what takes long before a first job can run; does not wait, and never fails.

        A job with these settings is likely to come, but need not.
        """

    def check(self, pipeline: beam_runner_api_pb2.Pipeline, settings: Settings) -> None:
        """Return if the pipeline can be run; nothing is started.

        Raises:
            Unsupported: names the transform, its URN and an alternative.
            BadOption: an option would have no effect on such a job.
        """

    def execute(
        self,
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
        """Run the pipeline to its end; raises what ``sparkdrain.errors`` has for failures.

        Once ``drain`` is requested, which may be so before the start, nothing more is read from
        unbounded sources. A batch job reads everything all the same.
        """


class SparkEngine:
    """The engine of this package, imported when the first job needs it."""

    def head_start(self, settings: Settings) -> None:
        """See ``Engine.head_start``."""
        from sparkdrain.stages.head_start import head_start  # noqa: PLC0415 - only for programs

        head_start(settings)

    def check(self, pipeline: beam_runner_api_pb2.Pipeline, settings: Settings) -> None:
        """See ``Engine.check``."""
        from sparkdrain.graph.check import check  # noqa: PLC0415 (heavy)
        from sparkdrain.graph.mode import is_streaming  # noqa: PLC0415 (heavy)

        streaming = is_streaming(pipeline, settings)
        settings.check_effect(streaming=streaming)
        check(pipeline, streaming=streaming, durable=bool(settings.checkpoint_dir))

    def execute(
        self,
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
        """See ``Engine.execute``."""
        from sparkdrain.graph.mode import is_streaming  # noqa: PLC0415 (heavy)

        if is_streaming(pipeline, settings):
            from sparkdrain.rounds.driver.execute import execute as run  # noqa: PLC0415 (imports PySpark)
        else:
            from sparkdrain.stages.execute import execute as run  # noqa: PLC0415
        return run(
            pipeline,
            settings,
            job_id=job_id,
            job_name=job_name,
            pipeline_options=pipeline_options,
            artifacts=artifacts,
            observer=observer,
            cancel=cancel,
            drain=drain,
        )
