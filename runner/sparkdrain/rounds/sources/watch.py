"""Notices a restriction that takes too long, interrupts it, and warns if that does not help.

A DoFn that claims nothing cannot be interrupted; the warning names it.
"""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_LOGGER = logging.getLogger(__name__)


class Watch:
    """Looks, from a thread of its own, whether a restriction takes too long.

    Args:
        seconds: how long one may take before it is interrupted.
        patience: seconds after which a warning is logged, and again each time that it has taken
            twice as long.
        interrupt: see ``RestrictionInlet.interrupt``.
        at_work: the step whose code runs, which may be one behind the transform.
    """

    def __init__(
        self,
        name: str,
        seconds: float,
        patience: float,
        interrupt: Callable[[], bool],
        at_work: Callable[[], str] = str,
    ) -> None:
        self._at_work = at_work
        self._name = name
        self._seconds = max(seconds, 0.005)
        self._patience = patience
        self._interrupt = interrupt
        self._over = threading.Event()
        self._began: float | None = None
        self._warn_at = patience
        self._thread: threading.Thread | None = None

    def begin(self) -> None:
        """A restriction begins to be processed."""
        self._warn_at = self._patience
        self._began = time.monotonic()
        if self._thread is None:
            thread = threading.Thread(target=self._look, name="restrictions", daemon=True)
            thread.start()
            self._thread = thread

    def end(self) -> None:
        """Take that the restriction has come back."""
        self._began = None

    def _look(self) -> None:
        while not self._over.wait(self._seconds):
            began = self._began
            if began is None:
                continue
            taken = time.monotonic() - began
            if taken >= self._warn_at:
                self._warn_at *= 2
                _LOGGER.warning(
                    "%s has been processing one restriction for %.1f seconds, and the step at "
                    "work is %r. If that is the same step, it claims nothing, or what it reads "
                    "cannot be split: call tracker.try_claim more often, or "
                    "tracker.defer_remainder. The round, and everything that waits for its end, "
                    "lasts as long.",
                    self._name,
                    taken,
                    self._at_work() or self._name,
                )
            if taken >= self._seconds:
                self._interrupt()

    def __enter__(self) -> Watch:
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()
        if self._thread is not None:
            self._thread.join()
