"""Hands out driver processes, and keeps one ready for the next job."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sparkdrain.server.driver import Driver, Launch
    from sparkdrain.server.session import Session


class Drivers:
    """Driver processes for jobs, one for each; a spare one waits with its session ready.

    Thread-safe.

    Args:
        launch: starts a driver.
        is_warm: whether to keep a spare one.
    """

    def __init__(self, launch: Launch, *, is_warm: bool) -> None:
        self._launch = launch
        self._is_warm = is_warm
        self._lock = threading.Lock()
        self._spare: tuple[Session, Driver] | None = None
        self._closed = False

    def take(self, session: Session) -> Driver:
        """A driver for one job; the caller ends it."""
        with self._lock:
            spare, self._spare = self._spare, None
        if spare is not None:
            made_for, driver = spare
            if made_for == session and driver.is_alive:
                return driver
            driver.kill()
            driver.end()
        return self._launch(session, warm=False)

    def prepare(self, session: Session) -> None:
        """Start the spare driver, if there is to be one and there is none; does not wait."""
        if not self._is_warm:
            return
        with self._lock:
            if self._spare is None and not self._closed:
                self._spare = session, self._launch(session, warm=True)

    def close(self) -> None:
        """End the spare driver."""
        with self._lock:
            self._closed = True
            spare, self._spare = self._spare, None
        if spare is not None:
            spare[1].end()
