"""How the first failure of user code reaches the driver at once, where Spark would try again.

On a cluster Spark runs a failed task ``spark.task.maxFailures`` times before it says why. User code
that has raised is not asked a second time: the driver is told, and ends the job.
"""

from __future__ import annotations

import contextlib
import secrets
import socket
import threading
from dataclasses import dataclass
from multiprocessing.connection import Client, Connection, Listener
from typing import TYPE_CHECKING, Any, Final

from sparkdrain.door import Door
from sparkdrain.stages.driver_address import driver_address
from sparkdrain.stages.failure import Failure, failure_in

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark import SparkContext

_TOKEN_BYTES: Final = 16
_SEND_SECONDS: Final = 5.0
_END_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True)
class FailureAddress:
    """Where the driver listens; travels with the task."""

    host: str
    port: int
    token: bytes


class FirstFailure:
    """The driver's side, for one attempt at a job.

    Args:
        host: an address of this machine that executors can reach.
        interface: the address to listen at.
        end: called once, when the first failure of user code is known.

    Raises:
        OSError: nothing can listen there.
    """

    def __init__(self, host: str, interface: str, end: Callable[[], object]) -> None:
        self._end = end
        token = secrets.token_bytes(_TOKEN_BYTES)
        self._door = Door(token)
        self._listener = Listener((interface, 0))
        self._bound = interface, self._listener.address[1]
        self.address = FailureAddress(host, self._listener.address[1], token)
        self.failure: Failure | None = None
        """The first one, once it is known."""
        self._lock = threading.Lock()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="failure-listener", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop listening."""
        self._closed = True
        # Nothing else wakes a thread that waits for a connection.
        with contextlib.suppress(OSError):
            socket.create_connection(self._bound, 1.0).close()
        self._thread.join(_END_SECONDS)

    def _run(self) -> None:
        # Closed by nobody else: a thread that waits for connections would not notice.
        with self._listener:
            while not self._closed:
                with contextlib.suppress(OSError):
                    connection = self._listener.accept()
                    # In a thread of its own: a stranger may stay silent for a while.
                    threading.Thread(
                        target=self._hear, args=(connection,), name="failure-told", daemon=True
                    ).start()

    def _hear(self, connection: Connection) -> None:
        # A worker that is gone, or a job that has ended itself.
        with connection, contextlib.suppress(Exception):
            if self._door.admits(connection) and connection.poll(_SEND_SECONDS):
                self._take(failure_in(connection.recv_bytes().decode()))
                connection.send_bytes(b"")

    def _take(self, failure: Failure | None) -> None:
        if failure is None or not failure.by_user:
            return
        with self._lock:
            if self._closed or self.failure is not None:
                return
            self.failure = failure
        self._end()


def first_failure(
    context: SparkContext, end: Callable[[], object], *, local: bool
) -> FirstFailure | None:
    """What listens for failures in the tasks of ``context``; None if Spark tries nothing again."""
    conf: Any = context.getConf()
    # Of a local master that is its second number.
    once = "," not in context.master if local else conf.get("spark.task.maxFailures", "4") == "1"
    if once:
        return None
    # Where nothing can listen, all is as with Spark's own jobs.
    with contextlib.suppress(OSError):
        return FirstFailure(*driver_address(context), end)
    return None


def tell(address: FailureAddress | None, text: str) -> None:
    """Tell the driver of a failure, if it listens; ``text`` is that of a ``TaskFailed``."""
    if address is None:
        return
    # Spark will tell it as well, if later.
    with (
        contextlib.suppress(Exception),
        Client((address.host, address.port), authkey=address.token) as driver,
    ):
        driver.send_bytes(text.encode())
        # Raised before the driver has ended the job, it would be tried again.
        driver.poll(_SEND_SECONDS)
