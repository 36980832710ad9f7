"""PySpark's daemon, which forks the Python workers of an executor."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyspark
import pyspark.daemon
import pyspark.worker

from sparkdrain.stages.spark.sockets import private_folder_of_daemon

if TYPE_CHECKING:
    from collections.abc import Callable


def run(wrapped: Callable[[Any], Any]) -> None:
    """Be PySpark's daemon until Spark ends it.

    Args:
        wrapped: makes, of the function that serves one connection, the function to call instead.
    """
    pyspark.daemon.worker = wrapped(pyspark.daemon.worker)
    with private_folder_of_daemon():
        pyspark.daemon.manager()
