"""Files that Spark brings to every executor."""

from __future__ import annotations

import contextlib
import io
import pickle
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark import Broadcast

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
