"""Tells workers that a batch job is over. They end its SDK harnesses in order, and its daemons.

Spark keeps its Python workers for other jobs, or ends them, without a word. A harness of the
TypeScript SDK lives in the program that has submitted the job, and that program fails if its
connection breaks.
"""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING, Final

from sparkdrain.lines.server import Server

if TYPE_CHECKING:
    from collections.abc import Callable

    from sparkdrain.lines.line import Endpoint, Line
    from sparkdrain.lines.server import Bind

_DIAL_SECONDS: Final = 5.0
END_SECONDS: Final = 15.0
"""How long a driver waits for workers: longer than a harness has to tear its DoFns down."""


class JobOver:
    """The driver's side, for one attempt at a job.

    Raises:
        OSError: nothing can listen there.
    """

    def __init__(self, bind: Bind) -> None:
        self._is_over = threading.Event()
        self._waiting: set[Line] = set()
        self._changed = threading.Condition()
        self._server = Server(bind, "job-over", self._hold)
        self.endpoint = self._server.endpoint

    def tell(self) -> None:
        """Tell all workers that wait for it, and wait some seconds until they are done."""
        self._server.close()
        self._is_over.set()
        with self._changed:
            self._changed.wait_for(lambda: not self._waiting, END_SECONDS)

    def _hold(self, line: Line) -> None:
        with self._changed:
            self._waiting.add(line)
        try:
            line.send_bytes(b"")  # it is counted from now on
            self._is_over.wait()
            line.send_bytes(b"")
            line.poll(END_SECONDS)
        finally:
            with self._changed:
                self._waiting.discard(line)
                self._changed.notify_all()


def when_over(driver: Endpoint, end: Callable[[], object]) -> None:
    """Have ``end`` called when the job is over, or its driver is gone; from a thread of its own.

    The driver waits for the end of ``end``. If it cannot be reached, nothing is called.
    """
    counted = threading.Event()

    def wait() -> None:
        with contextlib.suppress(OSError, EOFError), driver.dial(_DIAL_SECONDS) as line:
            line.recv_bytes()
            counted.set()
            with contextlib.suppress(OSError, EOFError):
                line.recv_bytes()
            end()
            line.send_bytes(b"")
        counted.set()  # also if the driver does not answer

    threading.Thread(target=wait, name="sparkdrain-job-over", daemon=True).start()
    counted.wait(_DIAL_SECONDS)
