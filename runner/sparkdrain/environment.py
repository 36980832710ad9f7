"""The environment that stages of a pipeline get when the user names none: this very Python.

The one module that touches Beam's stager.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from apache_beam.internal import pickler
from apache_beam.options.pipeline_options import DebugOptions, PortableOptions, SetupOptions
from apache_beam.portability import python_urns
from apache_beam.runners.portability import stager
from apache_beam.transforms import environments
from apache_beam.transforms.resources import resource_hints_from_options

from sparkdrain import row_types
from sparkdrain.loopback import EXPERIMENTS, loopback_pool
from sparkdrain.main_classes import FILE_NAME, main_classes, pickled
from sparkdrain.requirements_cache import private_requirements_cache
from sparkdrain.room import room

if TYPE_CHECKING:
    from apache_beam.options.pipeline_options import PipelineOptions
    from apache_beam.portability.api import beam_runner_api_pb2

# The URN stands for a pool that is yet to be started, as the name does.
_LOOPBACK: Final = frozenset({"LOOPBACK", python_urns.EMBEDDED_PYTHON_LOOPBACK})
STAGE: Final = "stage-"
"""What names of folders for files to be staged begin with."""


def default_environment(
    options: PipelineOptions, directory: str | None = None
) -> environments.Environment:
    """What ``--environment_type`` asks for, else Python without Docker or a worker of its own.

    Args:
        options: the pipeline's options.
        directory: where files to be staged are made (a main session, classes of the main program,
            a source distribution); must stay until they are staged. If not given, a directory that
            goes with this process.

    Raises:
        BadOption: other users can change what is in ``--requirements_cache``.
    """
    with private_requirements_cache(options):
        return _environment(options, directory)


def _environment(options: PipelineOptions, directory: str | None) -> environments.Environment:
    portable = options.view_as(PortableOptions)
    if portable.environment_type in _LOOPBACK:
        experiments = ",".join(options.view_as(DebugOptions).experiments or ())
        return environments.ExternalEnvironment(
            loopback_pool(),
            {EXPERIMENTS: experiments} if experiments else None,
            capabilities=environments.python_sdk_capabilities(),
        )
    if portable.environment_type not in {None, "", python_urns.EMBEDDED_PYTHON}:
        return environments.Environment.from_options(portable)
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


def add_row_types(
    pipeline: beam_runner_api_pb2.Pipeline, options: PipelineOptions, directory: str
) -> None:
    """Have the types of the pipeline's rows staged with the environments that are this Python.

    Args:
        pipeline: translated: only then all rows have their ids.
        directory: see ``default_environment``.
    """
    if not _by_value(options) or not (data := row_types.pickled_row_types(pipeline)):
        return
    file = Path(tempfile.mkdtemp(dir=directory)) / row_types.FILE_NAME
    file.write_bytes(data)
    for environment in pipeline.components.environments.values():
        if environment.urn == python_urns.EMBEDDED_PYTHON:
            environment.dependencies.append(_staged(file))


def _by_value(options: PipelineOptions) -> bool:
    """Whether classes are sent as user code is: a worker must not get two of one name."""
    library = options.view_as(SetupOptions).pickle_library
    return library in {"default", pickler.USE_CLOUDPICKLE}


def _staged(file: Path) -> beam_runner_api_pb2.ArtifactInformation:
    return stager.Stager._create_file_stage_to_artifact(str(file), file.name)  # noqa: SLF001


def _main_classes(
    options: PipelineOptions, directory: str
) -> list[beam_runner_api_pb2.ArtifactInformation]:
    """The file with the main program's classes, if it has any, and if workers can load them."""
    classes = main_classes()
    if not classes or not _by_value(options):
        return []
    file = Path(tempfile.mkdtemp(dir=directory)) / FILE_NAME
    file.write_bytes(pickled(classes))
    return [_staged(file)]


def _directory_of_this_process() -> str:
    directory = tempfile.mkdtemp(prefix=STAGE, dir=room())
    atexit.register(_remove, directory, os.getpid())
    return directory


def _remove(directory: str, owner: int) -> None:
    # A forked child inherits what is registered.
    if os.getpid() == owner:
        shutil.rmtree(directory, ignore_errors=True)
