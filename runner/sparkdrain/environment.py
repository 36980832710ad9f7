"""The environment that stages of a pipeline get when the user names none: this very Python.

The one module that touches Beam's stager.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from apache_beam.internal import pickler
from apache_beam.options.pipeline_options import PortableOptions, SetupOptions
from apache_beam.runners.portability import stager
from apache_beam.transforms import environments
from apache_beam.transforms.resources import resource_hints_from_options

from sparkdrain.main_classes import FILE_NAME, main_classes, pickled

if TYPE_CHECKING:
    from apache_beam.options.pipeline_options import PipelineOptions
    from apache_beam.portability.api import beam_runner_api_pb2


def default_environment(
    options: PipelineOptions, directory: str | None = None
) -> environments.Environment:
    """What ``--environment_type`` asks for, else Python without Docker or a worker of its own.

    Args:
        options: the pipeline's options.
        directory: where files to be staged are made (a main session, classes of the main program,
            a source distribution); must stay until they are staged. If not given, a directory that
            goes with this process.
    """
    if options.view_as(PortableOptions).environment_type:
        return environments.Environment.from_options(options.view_as(PortableOptions))
    # Beam's own way to this environment runs `pip freeze` first, only to log it: half a second.
    requirements = environments.PyPIArtifactRegistry.get_artifacts()
    directory = directory or _directory_of_this_process()
    resources = stager.Stager.create_job_resources(
        options,
        directory,
        pypi_requirements=[name + version for name, version in requirements],
        log_submission_env_dependencies=False,
    )
    resources += _main_classes(options, directory)
    return environments.EmbeddedPythonEnvironment(
        capabilities=environments.python_sdk_capabilities(),
        artifacts=resources,
        resource_hints=resource_hints_from_options(options),
    )


def _main_classes(
    options: PipelineOptions, directory: str
) -> list[beam_runner_api_pb2.ArtifactInformation]:
    """The file with the main program's classes, if it has any, and if workers can load them."""
    library = options.view_as(SetupOptions).pickle_library
    classes = main_classes()
    if not classes or library not in {"default", pickler.USE_CLOUDPICKLE}:
        return []
    file = Path(tempfile.mkdtemp(dir=directory)) / FILE_NAME
    file.write_bytes(pickled(classes))
    return [stager.Stager._create_file_stage_to_artifact(str(file), FILE_NAME)]  # noqa: SLF001


def _directory_of_this_process() -> str:
    directory = tempfile.mkdtemp(prefix="sparkdrain-stage-")
    atexit.register(_remove, directory, os.getpid())
    return directory


def _remove(directory: str, owner: int) -> None:
    # A forked child inherits what is registered.
    if os.getpid() == owner:
        shutil.rmtree(directory, ignore_errors=True)
