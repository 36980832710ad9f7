"""Files that Spark brings to every executor."""

from __future__ import annotations

from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING, Any

from pyspark import Broadcast

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark import SparkContext


class FileBroadcast(Broadcast[Any]):
    """A file that every executor gets once, as it is; read it by ``path``."""

    def __init__(self, context: SparkContext, write: Callable[[Any], None]) -> None:
        # Deliberately not Broadcast's own: it would pickle a value.
        self._sc = context
        with NamedTemporaryFile(delete=False, dir=context._temp_dir) as file:
            self._path = file.name
            write(file)
        self._python_broadcast = context._jvm.PythonRDD.setupBroadcast(self._path)
        self._jbroadcast = context._jsc.broadcast(self._python_broadcast)
        self._pickle_registry = context._pickled_broadcast_vars

    @property
    def value(self) -> Any:
        """Not there: a file has no value."""
        message = "value"
        raise AttributeError(message)

    def drop(self) -> None:
        """Remove it everywhere."""
        self._jbroadcast.destroy()
        Path(self._path).unlink(missing_ok=True)


def broadcast_path(broadcast: Broadcast[Any]) -> Path:
    """Where a broadcast file is on this machine, in a task."""
    return Path(broadcast._path)
