"""Tells the engine that its job is to be drained."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from sparkdrain.drain.inquiry import Inquiry
from sparkdrain.types import call_all

if TYPE_CHECKING:
    from collections.abc import Callable

    from sparkdrain.drain.notification import DrainNotification


class DrainSignal:
    """Carries the first request to drain one job, once and for good. Thread-safe.

    A caller of ``request`` need not know whether the job has started, drains already, or is over.
    Callbacks run in the thread that requests, in the order in which they were registered, each at
    most once; one that is registered too late runs at once.

    Attributes:
        inquiry: what a drain would find can be asked, too, without a drain.
    """

    def __init__(self) -> None:
        self.inquiry = Inquiry()
        self._lock = threading.Lock()
        self._notification: DrainNotification | None = None
        self._callbacks: list[Callable[[], object]] = []

    def request(self, notification: DrainNotification) -> bool:
        """Ask for a drain; does not wait for it.

        Returns:
            Whether this was the first request. Later ones change nothing.
        """
        with self._lock:
            if self._notification is not None:
                return False
            self._notification = notification
            callbacks, self._callbacks = self._callbacks, []
        call_all(callbacks, "a drain request")
        return True

    def requested(self) -> DrainNotification | None:
        """The first request; None as long as there is none."""
        return self._notification

    def on_request(self, callback: Callable[[], object]) -> None:
        """Run ``callback`` when a drain is requested, or now if it was already."""
        with self._lock:
            if self._notification is None:
                self._callbacks.append(callback)
                return
        call_all([callback], "a drain request")
