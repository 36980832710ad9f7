"""Tells the engine that its job is to be drained."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from sparkdrain.drain.notification import DrainNotification

_LOGGER = logging.getLogger(__name__)


class DrainSignal:
    """Carries the first request to drain one job, once and for good. Thread-safe.

    Who calls ``request`` need not know whether the job has started, drains already, or is over.
    Callbacks run in the thread that requests, in the order in which they were registered, each at
    most once; one that is registered too late runs at once.
    """

    def __init__(self) -> None:
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
        for callback in callbacks:
            _run(callback)
        return True

    def requested(self) -> DrainNotification | None:
        """The first request; None as long as there is none."""
        return self._notification

    def on_request(self, call: Callable[[], object]) -> None:
        """Run ``call`` when a drain is requested, or now if it was already."""
        with self._lock:
            if self._notification is None:
                self._callbacks.append(call)
                return
        _run(call)


def _run(callback: Callable[[], object]) -> None:
    # One that fails must not keep the others from hearing of the drain.
    try:
        callback()
    except Exception:
        _LOGGER.exception("A callback of a drain request failed.")
