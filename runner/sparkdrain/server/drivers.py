"""Hands out driver processes, and keeps one ready for the next job."""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from sparkdrain.server.driver import Driver, Launch
    from sparkdrain.server.session import Session

_LOGGER = logging.getLogger(__name__)

_PAUSE_SECONDS: Final = 10.0
"""How long a job has the machine for its start before the next spare driver starts beside it."""

_LONGEST_PAUSE_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True)
class TakenDriver:
    """A driver for one job.

    Attributes:
        driver: the process.
        how: whether the driver was ready, or why not; the end of a sentence about the driver.
    """

    driver: Driver
    how: str


class _Spare(NamedTuple):
    """A driver that waits for a job, and the session that it has."""

    session: Session
    driver: Driver


class Drivers:
    """Driver processes for jobs, one for each; a spare one waits with its session ready.

    The spare has the session of the job that came last. A spare that dies is replaced, later each
    time that this happens in a row. The spare is no job: it does not count for ``--max-jobs``.
    Thread-safe.

    Args:
        launch: starts a driver.
        session: what the Spark session of the first spare is made from.
        is_warm: whether to keep a spare one.
        clock: seconds that only grow.
    """

    def __init__(
        self,
        launch: Launch,
        session: Session,
        *,
        is_warm: bool,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._launch = launch
        self._session = session
        self._is_warm = is_warm
        self._clock = clock
        self._lock = threading.Lock()
        self._spare: _Spare | None = None
        self._due = 0.0
        self._died = 0

    def take(self, session: Session) -> TakenDriver:
        """A driver for one job; the caller ends it."""
        with self._lock:
            spare, self._spare = self._spare, None
            self._session = session
            self._due = self._clock() + _PAUSE_SECONDS
        how = "starts Spark first: no driver waited"
        if spare is not None:
            driver = spare.driver
            if spare.session == session and driver.is_alive:
                self._died = 0
                return TakenDriver(
                    driver, "was ready" if driver.is_ready else "had begun to get ready"
                )
            if driver.is_alive:
                how = (
                    "starts Spark first: the driver that waited has another --spark_master_url or "
                    "--spark_conf"
                )
            # It ends in its own time, and leaves no file behind; the job does not wait for that.
            threading.Thread(target=driver.end, name="sparkdrain-unused", daemon=True).start()
        return TakenDriver(self._launch(session, warm=False), how)

    def hurry(self) -> None:
        """A job has ended, and leaves the machine to the next spare driver."""
        with self._lock:
            if not self._died:
                self._due = 0.0
        self.watch()

    def watch(self) -> None:
        """Start the spare driver if it is due, and replace a dead one; call this now and then."""
        if not self._is_warm:
            return
        with self._lock:
            now = self._clock()
            if self._spare is not None and not self._spare.driver.is_alive:
                dead, self._spare = self._spare.driver, None
                pause = min(_LONGEST_PAUSE_SECONDS, 2.0**self._died)
                self._died, self._due = self._died + 1, now + pause
                _LOGGER.warning("No job had it: %s Another starts in %.0f s.", dead.lost(), pause)
                dead.end()
            if self._spare is None and now >= self._due:
                driver = self._launch(self._session, warm=True)
                self._spare = _Spare(self._session, driver)

    def close(self) -> None:
        """End the spare driver; there is none after that."""
        with self._lock:
            self._is_warm = False
            spare, self._spare = self._spare, None
        if spare is not None:
            spare.driver.end()
