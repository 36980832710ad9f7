"""The environment that stages of a pipeline get when the user names none: this very Python.

The one module that touches Beam's stager.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import shutil
import stat
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from apache_beam.internal import pickler
from apache_beam.options.pipeline_options import DebugOptions, PortableOptions, SetupOptions
from apache_beam.portability import python_urns
from apache_beam.runners.portability import stager
from apache_beam.transforms import environments
from apache_beam.transforms.resources import resource_hints_from_options

from sparkdrain import access, row_types
from sparkdrain.errors import BadOption
from sparkdrain.loopback import EXPERIMENTS, loopback_pool
from sparkdrain.main_classes import FILE_NAME, main_classes, pickled
from sparkdrain.room import room

if TYPE_CHECKING:
    from collections.abc import Iterator

    from apache_beam.options.pipeline_options import PipelineOptions
    from apache_beam.portability.api import beam_runner_api_pb2

# The URN stands for a pool that is yet to be started, as the name does.
_LOOPBACK: Final = frozenset({"LOOPBACK", python_urns.EMBEDDED_PYTHON_LOOPBACK})
STAGE: Final = "stage-"
"""What names of folders for files to be staged begin with."""
_NO_CACHE: Final = "skip"
_CACHE: Final = Path("sparkdrain", "requirements")


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
    with _private_requirements_cache(options):
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
    if _by_value(options) and (classes := main_classes()):
        resources.append(_staged(FILE_NAME, pickled(classes), directory))
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
    staged = _staged(row_types.FILE_NAME, data, directory)
    for environment in pipeline.components.environments.values():
        if environment.urn == python_urns.EMBEDDED_PYTHON:
            environment.dependencies.append(staged)


def _by_value(options: PipelineOptions) -> bool:
    """Whether classes are sent as user code is: a worker must not get two of one name."""
    library = options.view_as(SetupOptions).pickle_library
    return library in {"default", pickler.USE_CLOUDPICKLE}


def _staged(name: str, data: bytes, directory: str) -> beam_runner_api_pb2.ArtifactInformation:
    """A file to be staged, made in a folder of its own."""
    file = Path(tempfile.mkdtemp(dir=directory)) / name
    file.write_bytes(data)
    return stager.Stager._create_file_stage_to_artifact(str(file), file.name)  # noqa: SLF001


def _directory_of_this_process() -> str:
    directory = tempfile.mkdtemp(prefix=STAGE, dir=room())
    atexit.register(_remove, directory, os.getpid())
    return directory


def _remove(directory: str, owner: int) -> None:
    # A forked child inherits what is registered.
    if os.getpid() == owner:
        shutil.rmtree(directory, ignore_errors=True)


@contextlib.contextmanager
def _private_requirements_cache(options: PipelineOptions) -> Iterator[None]:
    """Have Beam's stager use a cache of this user only, as long as the context lasts.

    Downloaded packages wait there for the next job. Beam's own default is a folder of a known name
    in the folder for temporary files. Another user can make that folder first, and put packages in
    it that jobs then install.

    Raises:
        BadOption: other users can change what is in the cache.
    """
    setup = options.view_as(SetupOptions)
    given = setup.requirements_cache
    if sys.platform == "win32" or given == _NO_CACHE:
        yield
        return
    packages = list(environments.PyPIArtifactRegistry.get_artifacts())
    if setup.requirements_file is None and not packages:
        # Else the stager makes a folder that nothing is put in.
        setup.requirements_cache = _NO_CACHE
    else:
        home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
        usual = Path(home).absolute() / _CACHE
        setup.requirements_cache = str(_checked(usual if given is None else Path(given)))
    try:
        yield
    finally:
        setup.requirements_cache = given


def _checked(folder: Path) -> Path:
    """The folder, which is made if it is not there.

    Raises:
        BadOption: it cannot be made, or other users can change what is in it.
    """
    try:
        access.prepare(folder, group=False)
        found = folder.stat()
    except OSError as error:
        message = (
            f"Packages cannot be kept in {folder}: {error}. Name a folder of your own with "
            "--requirements_cache."
        )
        raise BadOption(message) from error
    if found.st_uid not in {0, os.geteuid()}:
        wrong = f"belongs to the user {found.st_uid}"
    elif access.others_may_write(found):
        wrong = f"may be written by other users (mode {stat.S_IMODE(found.st_mode):04o})"
    else:
        return folder
    message = (
        f"Packages of the job would be taken from {folder}, which {wrong}, who could so run code "
        "as this user. Name a folder of your own with --requirements_cache, or take the right away "
        "(chmod go-w) once you know what is in it."
    )
    raise BadOption(message)
