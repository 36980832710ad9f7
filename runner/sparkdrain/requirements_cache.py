"""Where downloaded packages wait for the next job: a folder that no other user can change.

Beam's own default is a folder of a known name in the folder for temporary files. Another user can
make that folder first, and put packages in it that jobs then install.
"""

from __future__ import annotations

import contextlib
import os
import stat
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from apache_beam.options.pipeline_options import SetupOptions
from apache_beam.transforms.environments import PyPIArtifactRegistry

from sparkdrain import access
from sparkdrain.errors import BadOption

if TYPE_CHECKING:
    from collections.abc import Iterator

    from apache_beam.options.pipeline_options import PipelineOptions

_NONE: Final = "skip"
_FOLDER: Final = Path("sparkdrain", "requirements")


@contextlib.contextmanager
def private_requirements_cache(options: PipelineOptions) -> Iterator[None]:
    """Have Beam's stager use a cache of this user only, as long as the context lasts.

    Raises:
        BadOption: other users can change what is in the cache.
    """
    setup = options.view_as(SetupOptions)
    given = setup.requirements_cache
    if sys.platform == "win32" or given == _NONE:
        yield
        return
    if setup.requirements_file is None and not list(PyPIArtifactRegistry.get_artifacts()):
        setup.requirements_cache = _NONE  # else the stager makes a folder that nothing is put in
    else:
        setup.requirements_cache = str(_checked(_usual_cache() if given is None else Path(given)))
    try:
        yield
    finally:
        setup.requirements_cache = given


def _usual_cache() -> Path:
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(home).absolute() / _FOLDER


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
