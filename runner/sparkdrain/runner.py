"""The runner as Beam sees it; thin: checks options, submits to a job service, hands back a job."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from typing import TYPE_CHECKING, Final

from apache_beam.options.pipeline_options import StandardOptions, TypeOptions
from apache_beam.runners.pipeline_utils import group_by_key_input_visitor
from apache_beam.runners.portability.portable_runner import PortableRunner

from sparkdrain.concurrency.submitted import refuse_impossible
from sparkdrain.environment import STAGE, add_row_types, default_environment
from sparkdrain.option_check import refuse_unknown, refuse_without_effect
from sparkdrain.options import JobSettings, SparkDrainOptions
from sparkdrain.result import SparkDrainResult
from sparkdrain.room import room
from sparkdrain.submission import head_start, submission

if TYPE_CHECKING:
    from apache_beam.options.pipeline_options import PipelineOptions
    from apache_beam.pipeline import Pipeline
    from apache_beam.portability.api import beam_runner_api_pb2
    from apache_beam.transforms.environments import Environment

__all__ = ["SparkDrainOptions", "SparkDrainRunner"]
_REIFY: Final = "apache_beam.runners.interactive.caching.reify"


class SparkDrainRunner(PortableRunner):
    """Runs Beam pipelines on Spark: ``--runner=SparkDrainRunner``.

    Needs nothing but this package and Java: user code runs in Spark's own Python workers unless
    ``--environment_type`` says otherwise, and the job service is part of this process unless
    ``--job_endpoint`` names another. Options are those of ``SparkDrainOptions``, and Beam's
    ``--spark_master_url``.
    """

    def default_environment(self, options: PipelineOptions) -> Environment:
        """See ``PipelineRunner``: this Python, unless the options ask for something else."""
        return default_environment(options)

    def run_pipeline(self, pipeline: Pipeline, options: PipelineOptions) -> SparkDrainResult:
        """Check everything that can be checked, then start the pipeline.

        A pipeline that Beam's ``InteractiveRunner`` reads has ended when this returns.

        Raises:
            BadOption: an option is unknown, useless here or has a value that cannot be used.
            Unsupported: the pipeline contains something that this runner cannot run.
            ValueError: keys of a GroupByKey have no deterministic coder.
            RuntimeError: a pipeline that had to end has failed, see ``SparkDrainResult``.
        """
        refuse_unknown(options, sys.argv)
        refuse_without_effect(options)
        settings = JobSettings.from_options(options)
        # Processes that work in other folders are to find the same place.
        options.view_as(SparkDrainOptions).checkpoint_dir = settings.checkpoint_dir
        head_start(options, settings)
        refuse_impossible(pipeline, dict(settings.async_steps))
        deterministic = not options.view_as(TypeOptions).allow_non_deterministic_key_coders
        pipeline.visit(group_by_key_input_visitor(deterministic))
        _move_temporary_folder(pipeline)
        with tempfile.TemporaryDirectory(prefix=STAGE, dir=room()) as directory:
            environment = default_environment(options, directory)
            proto = pipeline.to_runner_api(default_environment=environment)
            add_row_types(proto, options, directory)
            result = _submit(proto, options, settings)
        if is_read_at_once(proto):
            result.wait_until_finish()
        return result

    def run_portable_pipeline(
        self, pipeline: beam_runner_api_pb2.Pipeline, options: PipelineOptions
    ) -> SparkDrainResult:
        """Submit the pipeline as it is: all optimizing is the engine's."""
        return _submit(pipeline, options, JobSettings.from_options(options))


def _submit(
    pipeline: beam_runner_api_pb2.Pipeline, options: PipelineOptions, settings: JobSettings
) -> SparkDrainResult:
    options.view_as(StandardOptions).runner = None
    handle = submission(options, settings)
    job_id, messages, states = handle.submit(pipeline)
    return SparkDrainResult(handle.job_service, job_id, messages, states, settings.drain_on_signal)


def _move_temporary_folder(pipeline: Pipeline) -> None:
    """Put the folder that Beam makes for every pipeline where it goes with this process.

    Beam removes the folder when it has handed the pipeline over, which a process that is killed
    does not live to do. A folder that holds files stays where the pipeline has been told it is.
    """
    place = room()
    if place is not None:
        # It is not empty, or the pipeline was run before.
        with contextlib.suppress(OSError):
            os.rmdir(pipeline.local_tempdir)
            pipeline.local_tempdir = tempfile.mkdtemp(prefix="pipeline-", dir=place)


def is_read_at_once(pipeline: beam_runner_api_pb2.Pipeline) -> bool:
    """Whether what a pipeline writes is read as soon as ``run`` has returned.

    ``interactive_beam.collect``, in a notebook, reads the files of its cache then, and waits for no
    job.
    """
    reify = sys.modules.get(_REIFY)
    if reify is None:
        return False  # Interactive Beam is not in use, and is slow to import
    return any(
        part.startswith(reify.WRITE_CACHE)
        for transform in pipeline.components.transforms.values()
        for part in transform.unique_name.split("/")
    )
