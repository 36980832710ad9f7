"""What a job's staged files mean for its workers: sent to the executors once for each content."""

from __future__ import annotations

import hashlib
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from apache_beam.portability import common_urns
from apache_beam.runners.internal.names import PICKLED_MAIN_SESSION_FILE
from apache_beam.runners.portability.stager import SUBMISSION_ENV_DEPENDENCIES_FILE

from sparkdrain import main_classes, row_types
from sparkdrain.stages.workers.packages import PIP_ROLE_PREFIX

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sparkdrain.types import Artifact

_PIP_ROLE: Final = common_urns.artifact_roles.PIP_REQUIREMENTS_FILE.urn


@dataclass(frozen=True, slots=True)
class Dependencies:
    """The files of a job that its workers need, ready to be sent.

    Attributes:
        packages: an archive for ``packages.use_packages``, if there are packages.
        session: a pickled main session, if there is one.
        classes: the main program's, if there are any.
        rows: types that are encoded as rows, if there are any.
    """

    packages: Path | None = None
    session: Path | None = None
    classes: Path | None = None
    rows: Path | None = None


def dependencies_of(artifacts: Sequence[Artifact], directory: Path) -> Dependencies:
    """Pack ``artifacts`` into files in ``directory``, whose names tell their content.

    What Beam stages only for its own diagnostics is left out; without anything else, nothing is
    made.
    """
    session = classes = rows = None
    packages = []
    for artifact in artifacts:
        if artifact.name == PICKLED_MAIN_SESSION_FILE:
            session = named_by_content(artifact.path, directory, "session")
        elif artifact.name == main_classes.FILE_NAME:
            classes = named_by_content(artifact.path, directory, "classes")
        elif artifact.name == row_types.FILE_NAME:
            rows = named_by_content(artifact.path, directory, "rows")
        elif artifact.name != SUBMISSION_ENV_DEPENDENCIES_FILE:
            packages.append((_name(artifact), artifact.path))
    archive = _packed(packages, directory) if packages else None
    return Dependencies(archive, session, classes, rows)


def _name(artifact: Artifact) -> str:
    # Beam gives such a file no name of its own.
    prefix = PIP_ROLE_PREFIX if artifact.role_urn == _PIP_ROLE else ""
    return prefix + artifact.name


def _packed(files: Iterable[tuple[str, Path]], directory: Path) -> Path:
    digest = hashlib.sha256()
    unnamed = Path(tempfile.mkdtemp(dir=directory)) / "packages.zip"
    with zipfile.ZipFile(unnamed, "w") as archive:
        for name, path in sorted(files):
            content = path.read_bytes()
            digest.update(b"%d %b %d " % (len(name), name.encode(), len(content)) + content)
            archive.writestr(name, content)
    return unnamed.rename(unnamed.with_name(f"sparkdrain-packages-{digest.hexdigest()[:16]}.zip"))


def named_by_content(path: Path, directory: Path, what: str) -> Path:
    """A copy of a file whose name tells its content."""
    content = path.read_bytes()
    digest = hashlib.sha256(content).hexdigest()[:16]
    copy = directory / f"sparkdrain-{what}-{digest}"
    copy.write_bytes(content)
    return copy
