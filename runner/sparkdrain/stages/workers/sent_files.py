"""Files for the executors of a session: packed under names that tell their content, sent once."""

from __future__ import annotations

import hashlib
import os
import tempfile
import threading
import weakref
import zipfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from apache_beam.portability import common_urns
from apache_beam.runners.internal.names import PICKLED_MAIN_SESSION_FILE
from apache_beam.runners.portability.stager import SUBMISSION_ENV_DEPENDENCIES_FILE

import sparkdrain
import sparkdrain_hook
import timers_state
from sparkdrain import main_classes, row_types
from sparkdrain.stages.cluster.context import is_local
from sparkdrain.stages.spark.session import temporary_directory
from sparkdrain.stages.workers.packages import PIP_ROLE_PREFIX

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pyspark import SparkContext

    from sparkdrain.types import Artifact

_PIP_ROLE: Final = common_urns.artifact_roles.PIP_REQUIREMENTS_FILE.urn
_KINDS: Final = {
    PICKLED_MAIN_SESSION_FILE: "session",
    main_classes.FILE_NAME: "classes",
    row_types.FILE_NAME: "rows",
}


def dependencies_of(artifacts: Sequence[Artifact], directory: Path) -> dict[str, Path]:
    """Pack ``artifacts`` into files in ``directory``, whose names tell their content.

    What Beam stages only for its own diagnostics is left out; without anything else, nothing is
    made.

    Returns:
        What workers need, by the name of its field in ``Preparation``; ``packages`` is an archive
        for ``use_packages``.
    """
    files: dict[str, Path] = {}
    packages = []
    for artifact in artifacts:
        if artifact.name in _KINDS:
            kind = _KINDS[artifact.name]
            files[kind] = _named_by_content(artifact.path, directory, kind)
        elif artifact.name != SUBMISSION_ENV_DEPENDENCIES_FILE:
            # Beam gives a file of requirements no name of its own.
            prefix = PIP_ROLE_PREFIX if artifact.role_urn == _PIP_ROLE else ""
            packages.append((prefix + artifact.name, artifact.path))
    if packages:
        content = ((name, path.read_bytes()) for name, path in sorted(packages))
        files["packages"] = _archive("sparkdrain-packages", content, directory, zipfile.ZIP_STORED)
    return files


def code_archive(directory: Path) -> Path:
    """This package as an importable archive, below ``directory``; its name tells its content."""
    return _archive("sparkdrain", _sources(), directory, zipfile.ZIP_DEFLATED)


def _sources() -> Iterator[tuple[str, bytes]]:
    hook = Path(str(sparkdrain_hook.__file__))
    yield hook.name, hook.read_bytes()
    for package in (sparkdrain, timers_state):
        root = Path(str(package.__file__)).parent
        for file in sorted(root.rglob("*")):
            if file.is_file() and file.suffix not in {".pyc", ".pyo"}:
                yield file.relative_to(root.parent).as_posix(), file.read_bytes()


def _archive(
    what: str, files: Iterable[tuple[str, bytes]], directory: Path, compression: int
) -> Path:
    digest = hashlib.sha256()
    unnamed = Path(tempfile.mkdtemp(dir=directory)) / "unnamed.zip"
    with zipfile.ZipFile(unnamed, "w", compression) as archive:
        for name, content in files:
            digest.update(b"%d %b %d " % (len(name), name.encode(), len(content)) + content)
            archive.writestr(name, content)
    return unnamed.rename(unnamed.with_name(f"{what}-{digest.hexdigest()[:16]}.zip"))


def _named_by_content(path: Path, directory: Path, what: str) -> Path:
    """A copy of a file whose name tells its content."""
    content = path.read_bytes()
    digest = hashlib.sha256(content).hexdigest()[:16]
    copy = directory / f"sparkdrain-{what}-{digest}"
    copy.write_bytes(content)
    return copy


@dataclass(slots=True)
class SentFiles:
    """The files that were sent to the executors of one context; each goes there once."""

    add: Any
    directory: Path
    local: bool
    root: str
    _sent: set[str] = field(default_factory=set)
    _code: Path | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _packing: threading.Lock = field(default_factory=threading.Lock)

    def send(self, file: Path) -> str:
        """Send ``file``, whose name tells its content; answers the name."""
        with self._lock:
            if file.name not in self._sent:
                self.add(str(file))
                self._sent.add(file.name)
        return file.name

    def send_staged(self, file: Path) -> str:
        """Send a file that only SDK harnesses need; answers what ``sent_file`` finds it by.

        On this machine a harness reads it where it is: a program in Java has tens of jars, and
        Spark would copy each of them twice.
        """
        if self.local:
            return str(file.absolute())
        return self.send(_named_by_content(file, self.directory, "staged"))

    def send_code(self) -> str:
        """Send this package."""
        with self._packing:  # jobs may begin at the same time
            if self._code is None:
                self._code = code_archive(self.directory)
        return self.send(self._code)

    def seen_by_executors(self, name: str) -> str:
        """The path of a sent file for a process that Spark starts: on a cluster it is relative."""
        return os.path.join(self.root, name) if self.local else name


_SENT: weakref.WeakKeyDictionary[Any, SentFiles] = weakref.WeakKeyDictionary()
_SENT_LOCK = threading.Lock()


def sent_files(context: SparkContext) -> SentFiles:
    """What is sent to the executors of ``context``."""
    from pyspark import SparkFiles  # noqa: PLC0415 - it asks the active context

    with _SENT_LOCK:
        if context not in _SENT:
            directory = Path(tempfile.mkdtemp(prefix="sent-", dir=temporary_directory(context)))
            root = SparkFiles.getRootDirectory()
            _SENT[context] = SentFiles(context.addFile, directory, is_local(context), root)
        return _SENT[context]
