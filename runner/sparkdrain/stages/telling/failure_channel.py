"""How the first failure of user code reaches the driver at once, where Spark would try again.

On a cluster Spark runs a failed task ``spark.task.maxFailures`` times before it says why. User code
that has raised is not asked a second time: the driver is told, and ends the job.
"""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING, Any, Final

from sparkdrain.lines.server import Server
from sparkdrain.stages.cluster.driver_address import driver_address
from sparkdrain.stages.telling.failure import Failure, failure_in

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark import SparkContext

    from sparkdrain.lines.line import Endpoint, Line
    from sparkdrain.lines.server import Bind

_SEND_SECONDS: Final = 5.0


class FirstFailure:
    """The driver's side, for one attempt at a job.

    Args:
        end: called once, when the first failure of user code is known.

    Attributes:
        server: what tasks dial, until it is closed.

    Raises:
        OSError: nothing can listen there.
    """

    def __init__(self, bind: Bind, end: Callable[[], object]) -> None:
        self._end = end
        self.failure: Failure | None = None
        """The first one, once it is known."""
        self._lock = threading.Lock()
        self.server = Server(bind, "failures", self._hear)

    def _hear(self, line: Line) -> None:
        # A worker that is gone, or a job that has ended itself.
        with contextlib.suppress(Exception):
            if line.poll(_SEND_SECONDS):
                self._take(failure_in(line.recv_bytes().decode()))
                line.send_bytes(b"")

    def _take(self, failure: Failure | None) -> None:
        if failure is None or not failure.by_user:
            return
        with self._lock:
            if self.server.is_closed or self.failure is not None:
                return
            self.failure = failure
        self._end()


def first_failure(
    context: SparkContext, end: Callable[[], object], *, local: bool
) -> FirstFailure | None:
    """What listens for failures in the tasks of ``context``; None if Spark tries nothing again."""
    if local:
        once = "," not in context.master  # its second number
    else:
        conf: Any = context.getConf()
        once = conf.get("spark.task.maxFailures", "4") == "1"
    if once:
        return None
    # Where nothing can listen, all is as with Spark's own jobs.
    with contextlib.suppress(OSError):
        return FirstFailure(driver_address(context), end)
    return None


def tell(driver: Endpoint | None, text: str) -> None:
    """Tell the driver of a failure, if it listens; ``text`` is that of a ``TaskFailed``."""
    if driver is None:
        return
    # Spark will tell it as well, if later.
    with (
        contextlib.suppress(Exception),
        driver.dial(_SEND_SECONDS) as line,
    ):
        line.send_bytes(text.encode())
        # Raised before the driver has ended the job, it would be tried again.
        line.poll(_SEND_SECONDS)
