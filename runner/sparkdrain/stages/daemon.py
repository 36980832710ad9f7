"""PySpark's worker daemon with everything imported before it forks.

A worker then starts in milliseconds, not in the second that importing Beam takes.
"""

from __future__ import annotations

import contextlib
import gc
import logging
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyspark.daemon

from sparkdrain.stages.packages import ARCHIVE_VARIABLE, use_packages

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable


def _use_packages() -> None:
    """Install what the job brings before Beam is imported, so that the job's versions win."""
    archive = os.environ.get(ARCHIVE_VARIABLE)
    scratch = os.environ.get("SPARK_LOCAL_DIRS", "").partition(",")[0]
    if archive and scratch:
        # A failure comes again in the first task, which can tell the driver.
        with contextlib.suppress(Exception):
            use_packages(Path(archive).absolute(), Path(scratch))


def _import_all() -> None:
    # The program that made the pipeline has imported the same, and has heard the warnings.
    logging.disable(logging.WARNING)
    import sparkdrain.stages.task  # noqa: F401, PLC0415 - the import is the point

    logging.disable(logging.NOTSET)


def _without_complaints(serve: Callable[[socket.socket, bool], int]) -> Any:
    """A worker whose task was cancelled finds its connection closed: nothing to tell anybody."""

    def quietly(connection: socket.socket, authenticated: bool) -> int:
        try:
            return serve(connection, authenticated)
        except (BrokenPipeError, ConnectionResetError):
            return 1

    return quietly


if __name__ == "__main__":
    _use_packages()
    _import_all()
    gc.collect()
    # The imported modules are never garbage; PySpark collects after every task.
    gc.freeze()
    pyspark.daemon.worker = _without_complaints(pyspark.daemon.worker)
    pyspark.daemon.manager()
