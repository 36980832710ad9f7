"""Who checks and runs jobs: the engine of this package, and what a test may put in its place."""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
from typing import TYPE_CHECKING, Final, Protocol

from apache_beam.portability.api import beam_job_api_pb2
from typing_extensions import override

from sparkdrain.coordination.stores import STORES
from sparkdrain.errors import SparkDrainError
from sparkdrain.standby.leadership import check_reach, check_signal

if TYPE_CHECKING:
    from apache_beam.portability.api import beam_runner_api_pb2

    from sparkdrain.invocation import Invocation, Outcome
    from sparkdrain.options import JobSettings

# After so many, Java has compiled most of what a job calls, and takes half the processor time.
_REHEARSALS: Final = 3


class Engine(Protocol):
    """Runs pipelines; called from many threads, one per job."""

    def head_start(self, settings: JobSettings) -> None:
        """Begin what takes long before a first job can run; does not wait, and never fails.

        A job with these settings is likely to come, but need not.
        """

    def warm_up(self, settings: JobSettings) -> None:
        """Do all that a job would wait for, as far as no other job can miss what that takes.

        For a process that waits for a job; never fails. On this machine there is a session, and
        worker processes, after that. A cluster is not asked for executors before there is a job.
        """

    def check(self, pipeline: beam_runner_api_pb2.Pipeline, settings: JobSettings) -> None:
        """Return if the pipeline can be run; nothing is started.

        Raises:
            Malformed: names the transform, and what it lacks or what of it cannot be read.
            Unsupported: names the transform, its URN and an alternative.
            BadOption: an option would have no effect on such a job.
            BadSetup: the program uses Spark Connect.
        """

    def execute(self, invocation: Invocation) -> Outcome:
        """Run the job to its end; raises what ``sparkdrain.errors`` has for failures.

        Once ``invocation.drain`` is requested, which may be so before the start, nothing more is
        read from unbounded sources. A batch job reads everything all the same.
        """


class SparkEngine(Engine):
    """The engine of this package, imported when the first job needs it."""

    @override
    def head_start(self, settings: JobSettings) -> None:
        from sparkdrain.stages.workers.head_start import head_start  # noqa: PLC0415 - only for programs

        head_start(settings)

    @override
    def warm_up(self, settings: JobSettings) -> None:
        self.head_start(settings)
        importlib.import_module("sparkdrain.rounds.driver.execute")
        from sparkdrain.stages.batch.rehearsal import rehearse  # noqa: PLC0415 (imports PySpark)
        from sparkdrain.stages.cluster.masters import runs_here  # noqa: PLC0415

        if runs_here(settings.spark_master_url or ""):
            with contextlib.suppress(SparkDrainError):  # the job that comes will say so
                for _ in range(_REHEARSALS):
                    rehearse(settings)

    @override
    def check(self, pipeline: beam_runner_api_pb2.Pipeline, settings: JobSettings) -> None:
        from sparkdrain.graph.check import check, is_streaming  # noqa: PLC0415 (heavy)
        from sparkdrain.graph.wellformed import check_payloads, check_wellformed  # noqa: PLC0415
        from sparkdrain.stages.cluster.masters import check_classic  # noqa: PLC0415 - as all of Spark

        check_wellformed(pipeline)
        check_payloads(pipeline)
        check_classic(settings.spark_master_url, settings.spark_conf, os.environ, sys.modules)
        streaming = is_streaming(pipeline, settings)
        settings.check_effect(streaming=streaming)
        if settings.standby:
            check_signal(settings.drain_on_signal)
            check_reach(STORES.reach(settings.metadata_store), settings.spark_master_url)
        check(
            pipeline,
            streaming=streaming,
            durable=bool(settings.checkpoint_dir),
            async_steps=[name for name, _ in settings.async_steps],
            samples=settings.samples,
        )

    @override
    def execute(self, invocation: Invocation) -> Outcome:
        from sparkdrain.graph.check import is_streaming  # noqa: PLC0415 (heavy)
        from sparkdrain.graph.notices import chosen_environments, open_pools  # noqa: PLC0415

        for text in chosen_environments(invocation.pipeline):
            invocation.observer.message(beam_job_api_pb2.JobMessage.JOB_MESSAGE_BASIC, text)
        for text in open_pools(invocation.pipeline):
            invocation.observer.message(beam_job_api_pb2.JobMessage.JOB_MESSAGE_WARNING, text)
        if is_streaming(invocation.pipeline, invocation.settings):
            from sparkdrain.rounds.driver.execute import execute  # noqa: PLC0415 (imports PySpark)
        else:
            from sparkdrain.stages.batch.execute import execute  # noqa: PLC0415
        return execute(invocation)
