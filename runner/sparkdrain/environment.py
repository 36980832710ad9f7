"""The environment that stages of a pipeline get when the user names none: this very Python.

The one module that touches Beam's stager.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from typing import TYPE_CHECKING

from apache_beam.options.pipeline_options import PortableOptions
from apache_beam.runners.portability import stager
from apache_beam.transforms import environments
from apache_beam.transforms.resources import resource_hints_from_options

if TYPE_CHECKING:
    from apache_beam.options.pipeline_options import PipelineOptions


def default_environment(
    options: PipelineOptions, directory: str | None = None
) -> environments.Environment:
    """What ``--environment_type`` asks for, else Python without Docker or a worker of its own.

    Args:
        options: the pipeline's options.
        directory: where files to be staged are made (a main session, a source distribution); must
            stay until they are staged. If not given, a directory that goes with this process.
    """
    if options.view_as(PortableOptions).environment_type:
        return environments.Environment.from_options(options.view_as(PortableOptions))
    # Beam's own way to this environment runs `pip freeze` first, only to log it: half a second.
    requirements = environments.PyPIArtifactRegistry.get_artifacts()
    resources = stager.Stager.create_job_resources(
        options,
        directory or _directory_of_this_process(),
        pypi_requirements=[name + version for name, version in requirements],
        log_submission_env_dependencies=False,
    )
    return environments.EmbeddedPythonEnvironment(
        capabilities=environments.python_sdk_capabilities(),
        artifacts=resources,
        resource_hints=resource_hints_from_options(options),
    )


def _directory_of_this_process() -> str:
    directory = tempfile.mkdtemp(prefix="sparkdrain-stage-")
    atexit.register(_remove, directory, os.getpid())
    return directory


def _remove(directory: str, owner: int) -> None:
    # A forked child inherits what is registered.
    if os.getpid() == owner:
        shutil.rmtree(directory, ignore_errors=True)
