"""Sockets between Spark's JVMs and Python: in a private folder, or TCP with Spark's secret.

Spark asks for no secret on a Unix socket: a process that can connect can run code. So the folder is
what keeps other users out.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import pyspark  # noqa: F401 - whole before a part of it: see the package
from pyspark import SparkContext

from sparkdrain.own_folder import OwnFolder, is_private

if TYPE_CHECKING:
    from collections.abc import Iterator

ENABLED: Final = "spark.python.unix.domain.socket.enabled"
FOLDER: Final = "spark.python.unix.domain.socket.dir"

_DAEMON_USES_UNIX: Final = "PYTHON_UNIX_DOMAIN_ENABLED"
_FOLDER_OF_DAEMON: Final = "PYTHON_WORKER_FACTORY_SOCK_DIR"


def knows_folder() -> bool:
    """Whether this PySpark has a setting for the folder of its sockets; Spark 4.1 and later do."""
    return FOLDER in SparkContext._do_init.__code__.co_consts


@contextmanager
def private_folder_of_daemon() -> Iterator[None]:
    """Have PySpark's daemon listen in a private folder.

    Executors on other machines are given the name of the driver's folder, which is not there; and
    a session of the user's may name none. Spark's JVM connects to what the daemon tells it.

    Raises:
        OSError: no private folder can be made.
    """
    given = os.environ.get(_FOLDER_OF_DAEMON, "")
    if os.environ.get(_DAEMON_USES_UNIX, "false").lower() != "true" or is_private(given):
        yield
        return
    folder = OwnFolder.make()
    os.environ[_FOLDER_OF_DAEMON] = folder.path
    try:
        yield
    finally:
        folder.remove()
