"""Small values and seams that every layer may use; this module imports nothing of ours."""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

_LOGGER = logging.getLogger(__name__)


class SparkAsked(Protocol):
    """Which Spark is asked for: by a job's settings, or by a driver that waits for a job."""

    @property
    def spark_master_url(self) -> str | None:
        """The master; None for what Spark's own set-up says."""

    @property
    def spark_conf(self) -> tuple[tuple[str, str], ...]:
        """Names and values of Spark's properties."""


@dataclass(frozen=True, slots=True)
class Artifact:
    """A file that the client staged for a job, now on a local disk of the driver.

    ``path`` ends in ``name``, so that tools which read meaning from a file name (pip) can use the
    path as it is.

    Attributes:
        name: the name under which user code and Beam's boot code expect the file.
        path: where it is now; readable until the job has ended.
        role_urn: Beam's ``beam:artifact:role:*`` URN.
        type_urn: Beam's ``beam:artifact:type:*`` URN of the file that was offered.
    """

    name: str
    path: Path
    role_urn: str
    type_urn: str


class CancelToken:
    """Tells one job, once and for good, that it is cancelled.

    Thread-safe. Callbacks run in the thread that calls ``cancel``, in the order in which they were
    registered, each at most once; one that is registered too late runs at once.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._event = threading.Event()
        self._callbacks: list[Callable[[], object]] = []

    def cancel(self) -> None:
        """Ask the job to stop; does not wait for it. A second call does nothing."""
        with self._lock:
            if self._event.is_set():
                return
            self._event.set()
            callbacks, self._callbacks = self._callbacks, []
        call_all(callbacks, "a cancellation")

    def is_cancelled(self) -> bool:
        """Whether ``cancel`` was called."""
        return self._event.is_set()

    def wait(self, seconds: float | None = None) -> bool:
        """Block until cancelled, or for that long; answers ``is_cancelled``."""
        return self._event.wait(seconds)

    def on_cancel(self, callback: Callable[[], object]) -> None:
        """Run ``callback`` when the token is cancelled, or now if it is already."""
        with self._lock:
            if not self._event.is_set():
                self._callbacks.append(callback)
                return
        call_all([callback], "a cancellation")


def call_all(callbacks: Iterable[Callable[[], object]], what: str) -> None:
    """Call one after the other; one that fails is logged and keeps none from being called.

    Args:
        what: they hear of, for the log.
    """
    for callback in callbacks:
        try:
            callback()
        except Exception:
            _LOGGER.exception("A callback of %s failed.", what)
