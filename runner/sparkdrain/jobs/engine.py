"""Who checks and runs jobs: the engine of this package, and what a test may put in its place."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from apache_beam.portability.api import beam_runner_api_pb2

    from sparkdrain.invocation import Invocation, Outcome
    from sparkdrain.options import JobSettings


class Engine(Protocol):
    """Runs pipelines; called from many threads, one per job."""

    def head_start(self, settings: JobSettings) -> None:
        """Begin what takes long before a first job can run; does not wait, and never fails.

        A job with these settings is likely to come, but need not.
        """

    def check(self, pipeline: beam_runner_api_pb2.Pipeline, settings: JobSettings) -> None:
        """Return if the pipeline can be run; nothing is started.

        Raises:
            Unsupported: names the transform, its URN and an alternative.
            BadOption: an option would have no effect on such a job.
            BadSetup: the program uses Spark Connect.
        """

    def execute(self, invocation: Invocation) -> Outcome:
        """Run the job to its end; raises what ``sparkdrain.errors`` has for failures.

        Once ``invocation.drain`` is requested, which may be so before the start, nothing more is
        read from unbounded sources. A batch job reads everything all the same.
        """


class SparkEngine:
    """The engine of this package, imported when the first job needs it."""

    def head_start(self, settings: JobSettings) -> None:
        """See ``Engine.head_start``."""
        from sparkdrain.stages.head_start import head_start  # noqa: PLC0415 - only for programs

        head_start(settings)

    def check(self, pipeline: beam_runner_api_pb2.Pipeline, settings: JobSettings) -> None:
        """See ``Engine.check``."""
        from sparkdrain.graph.check import check  # noqa: PLC0415 (heavy)
        from sparkdrain.graph.mode import is_streaming  # noqa: PLC0415 (heavy)
        from sparkdrain.stages.connect_check import check_classic  # noqa: PLC0415 - as all of Spark

        check_classic(settings.spark_master_url, settings.spark_conf, os.environ, sys.modules)
        streaming = is_streaming(pipeline, settings)
        settings.check_effect(streaming=streaming)
        check(pipeline, streaming=streaming, durable=bool(settings.checkpoint_dir))

    def execute(self, invocation: Invocation) -> Outcome:
        """See ``Engine.execute``."""
        from sparkdrain.graph.mode import is_streaming  # noqa: PLC0415 (heavy)

        if is_streaming(invocation.pipeline, invocation.settings):
            from sparkdrain.rounds.driver.execute import execute  # noqa: PLC0415 (imports PySpark)
        else:
            from sparkdrain.stages.execute import execute  # noqa: PLC0415
        return execute(invocation)
