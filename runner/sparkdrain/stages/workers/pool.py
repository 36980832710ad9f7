"""Which Python workers a job gets: their interpreter, environment, and the code that is sent."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any, Final

from sparkdrain.stages.cluster.context import is_local, is_ours
from sparkdrain.stages.spark.session import sent_code
from sparkdrain.stages.spark.versions import pyspark_version
from sparkdrain.stages.workers.handover import NURSERY_VARIABLE, PYSPARK_VARIABLE
from sparkdrain.stages.workers.head_start import importable, nursery_address
from sparkdrain.stages.workers.packages import ARCHIVE_VARIABLE
from sparkdrain.stages.workers.preparation import Preparation
from sparkdrain.stages.workers.sent_files import dependencies_of, sent_files

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
    files = sent_files(context)
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
    sent = {kind: files.send(file) for kind, file in dependencies.items()}
    if "packages" in sent:
        environment[ARCHIVE_VARIABLE] = files.seen_by_executors(sent["packages"])
    # Not types of rows: they have ids, so those of many jobs go together.
    for kind, variable in (("session", _SESSION_VARIABLE), ("classes", _CLASSES_VARIABLE)):
        if kind in sent:
            environment[variable] = sent[kind]
    there = directory if is_local(context) else ""
    preparation = Preparation.of(options, there, staged, **sent)
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
