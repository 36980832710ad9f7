"""Which Python workers a job gets: their interpreter, environment, and the code that is sent."""

from __future__ import annotations

import os
import sys
import tempfile
import threading
import weakref
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from sparkdrain.stages.cluster.context import is_local, is_ours
from sparkdrain.stages.spark.session import sent_code, temporary_directory
from sparkdrain.stages.spark.versions import pyspark_version
from sparkdrain.stages.workers.code_archive import code_archive
from sparkdrain.stages.workers.dependencies import dependencies_of, named_by_content
from sparkdrain.stages.workers.handover import NURSERY_VARIABLE
from sparkdrain.stages.workers.head_start import importable, nursery_address
from sparkdrain.stages.workers.packages import ARCHIVE_VARIABLE
from sparkdrain.stages.workers.preparation import Preparation
from sparkdrain.stages.workers.worker_spark import PYSPARK_VARIABLE

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from pyspark import SparkContext

    from sparkdrain.types import Artifact

_SESSION_VARIABLE: Final = "SPARKDRAIN_SESSION"
_CLASSES_VARIABLE: Final = "SPARKDRAIN_CLASSES"
_STREAMING_VARIABLE: Final = "SPARKDRAIN_STREAMING"


class JobContext:
    """A SparkContext to a job's tasks: with the job's own workers.

    Spark keeps a pool of Python workers for each interpreter and environment, so what a job
    brings never meets the jobs of another pool.
    """

    def __init__(
        self, context: SparkContext, python: str, environment: dict[str, str], includes: list[str]
    ) -> None:
        self._context = context
        self.pythonExec = python
        self.environment = environment
        self._python_includes = [*sent_code(context), *includes]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)


def job_context(
    context: SparkContext,
    options: Mapping[str, Any],
    artifacts: Sequence[Artifact],
    directory: str,
    *,
    streaming: bool = False,
    outside: Collection[str] = (),
) -> tuple[Any, Preparation]:
    """``context`` as a job with these options and staged files is to use it.

    Workers of streaming jobs are forked from, so they must not be ones in which a batch job has
    started RocksDB's threads.

    On this machine the workers are this very Python, find modules where this program does, and
    work in ``directory``, so that relative paths lead them where they lead the program.
    On a cluster they are what the executors have, with this package as it is here: sent to them.

    Args:
        options: the pipeline's options, by plain name.
        outside: names of staged files that only harnesses outside of the workers need.
    """
    files = _sent_to(context)
    environment = dict(context.environment)
    if streaming:
        environment[_STREAMING_VARIABLE] = "1"
    inside = [artifact for artifact in artifacts if artifact.name not in outside]
    dependencies = dependencies_of(inside, files.directory)
    staged = {
        artifact.name: files.send_staged(artifact.path)
        for artifact in artifacts
        if artifact.name in outside
    }
    packages = session = classes = rows = ""
    if dependencies.packages is not None:
        packages = files.send(dependencies.packages)
        environment[ARCHIVE_VARIABLE] = files.seen_by_executors(packages)
    if dependencies.session is not None:
        session = environment[_SESSION_VARIABLE] = files.send(dependencies.session)
    if dependencies.classes is not None:
        classes = environment[_CLASSES_VARIABLE] = files.send(dependencies.classes)
    if dependencies.rows is not None:
        # Not in the environment: types of rows have ids, so those of many jobs go together.
        rows = files.send(dependencies.rows)
    there = directory if is_local(context) else ""
    preparation = Preparation.of(options, packages, session, classes, rows, there, staged)
    if is_local(context):
        environment["PYTHONPATH"] = os.pathsep.join(importable())
        if nursery := nursery_address():
            environment[NURSERY_VARIABLE] = nursery
        return JobContext(context, sys.executable, environment, []), preparation
    environment[PYSPARK_VARIABLE] = pyspark_version()
    code = files.send_code()
    # In the environment too: the daemon imports this package before Spark names any archive.
    # The same for every job, or Spark would start new workers.
    path = [files.seen_by_executors(code), *environment.get("PYTHONPATH", "").split(os.pathsep)]
    environment["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(filter(None, path)))
    if is_ours(context):
        # Other code that runs tasks on our session gets our daemon, which must be importable.
        context.environment.setdefault("PYTHONPATH", environment["PYTHONPATH"])
    return JobContext(context, context.pythonExec, environment, [code]), preparation


@dataclass(slots=True)
class _SentFiles:
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
        return self.send(named_by_content(file, self.directory, "staged"))

    def send_code(self) -> str:
        """Send this package."""
        with self._packing:  # jobs may begin at the same time
            if self._code is None:
                self._code = code_archive(self.directory)
        return self.send(self._code)

    def seen_by_executors(self, name: str) -> str:
        """The path of a sent file for a process that Spark starts: on a cluster it is relative."""
        return os.path.join(self.root, name) if self.local else name


_SENT: weakref.WeakKeyDictionary[Any, _SentFiles] = weakref.WeakKeyDictionary()
_SENT_LOCK = threading.Lock()


def _sent_to(context: SparkContext) -> _SentFiles:
    from pyspark import SparkFiles  # noqa: PLC0415 - it asks the active context

    with _SENT_LOCK:
        if context not in _SENT:
            directory = Path(tempfile.mkdtemp(prefix="sent-", dir=temporary_directory(context)))
            root = SparkFiles.getRootDirectory()
            _SENT[context] = _SentFiles(context.addFile, directory, is_local(context), root)
        return _SENT[context]
