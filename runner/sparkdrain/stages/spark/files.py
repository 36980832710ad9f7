"""Files that Spark brings to every executor, and where it keeps those and others."""

from __future__ import annotations

import contextlib
import io
import os
import pickle
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark import Broadcast, SparkFiles

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark import SparkContext


class FileBroadcast(Broadcast[Any]):
    """A file that every executor gets once, as it is; read it by ``broadcast_file``."""

    def __init__(self, context: SparkContext, write: Callable[[Any], None]) -> None:
        super().__init__(context, write, context._pickled_broadcast_vars)

    def dump(self, value: Callable[[Any], None], f: Any) -> None:
        """Have ``value`` write the file; called by PySpark's constructor."""
        assert self._sc is not None
        with contextlib.closing(f):
            if self._sc._encryption_enabled:
                # PySpark's worker gets a stream that the JVM decrypts, and reads a pickle from it.
                content = io.BytesIO()
                value(content)
                pickle.dump(content.getvalue(), f, pickle.HIGHEST_PROTOCOL)
            else:
                value(f)

    @property
    def value(self) -> Any:
        """Raises ``AttributeError``, because a file has no value."""
        message = "value"
        raise AttributeError(message)

    def drop(self) -> None:
        """Remove it everywhere."""
        self._jbroadcast.destroy()
        Path(self._path).unlink(missing_ok=True)


def broadcast_file(broadcast: Broadcast[Any]) -> Path | bytes:
    """Where a task finds a broadcast file on this machine, or its content if Spark encrypts."""
    content: bytes | None = getattr(broadcast, "_value", None)
    return Path(broadcast._path) if content is None else content


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
