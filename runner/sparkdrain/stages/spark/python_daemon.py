"""PySpark's daemon, which forks the Python workers of an executor.

Spark asks for no secret on a Unix socket: a process that can connect can run code. So the folder is
what keeps other users out.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import pyspark
import pyspark.daemon
import pyspark.worker

from sparkdrain.own_folder import OwnFolder, is_private

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_DAEMON_USES_UNIX: Final = "PYTHON_UNIX_DOMAIN_ENABLED"
_FOLDER_OF_DAEMON: Final = "PYTHON_WORKER_FACTORY_SOCK_DIR"


def run(wrapped: Callable[[Any], Any]) -> None:
    """Be PySpark's daemon until Spark ends it.

    Args:
        wrapped: makes, of the function that serves one connection, the function to call instead.
    """
    pyspark.daemon.worker = wrapped(pyspark.daemon.worker)
    with _private_folder():
        pyspark.daemon.manager()


@contextmanager
def _private_folder() -> Iterator[None]:
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
