"""Where Spark keeps files: sent ones, scratch files, those of a session."""

from __future__ import annotations

import os
from pathlib import Path

from pyspark import SparkFiles


def sent_file(name: str) -> Path:
    """Where a file that was sent with ``SparkContext.addFile`` is on this machine, in a task.

    A path that begins at the root stays as it is.
    """
    return Path(SparkFiles.get(name)).absolute()


def local_directories() -> list[Path]:
    """Spark's scratch directories, in a task (set by the JVM for its Python workers)."""
    given = os.environ.get("SPARK_LOCAL_DIRS", "")
    return [Path(part) for part in given.split(",") if part]


def scratch_directory() -> Path:
    """Where a task may keep files on its executor."""
    directories = local_directories()
    if directories:
        return directories[os.getpid() % len(directories)]
    import tempfile  # noqa: PLC0415 - only where Spark names no directory

    return Path(tempfile.gettempdir())
