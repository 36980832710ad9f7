"""Watches how long a drain takes as a whole."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from sparkdrain.drain.limits import LimitKind
from sparkdrain.drain.monitor import in_thread

if TYPE_CHECKING:
    from collections.abc import Callable

    from sparkdrain.drain.limits import Limits
    from sparkdrain.drain.monitor import Pause


class Deadline:
    """Tells when a drain takes longer than it may: once, or with the policy "wait" ever again.

    Args:
        exceeded: called in a thread of its own with the seconds that it took.
        pause: waits.
        start_thread: has something done beside, and answers how to wait for its end.
    """

    def __init__(
        self,
        limits: Limits,
        exceeded: Callable[[float], object],
        pause: Pause | None = None,
        clock: Callable[[], float] = time.monotonic,
        start_thread: Callable[[Callable[[], None]], Callable[[], None]] = in_thread,
    ) -> None:
        self._limits = limits
        self._exceeded = exceeded
        self._pause = threading.Event() if pause is None else pause
        self._clock = clock
        self._start_thread = start_thread
        self._join: Callable[[], object] = lambda: None
        self._began = 0.0

    def start(self, taken: float = 0.0) -> None:
        """The drain goes on from now.

        Args:
            taken: seconds that it took in lives of the job before this one.
        """
        if self._limits.drain is not None:
            self._began = self._clock() - taken
            self._join = self._start_thread(self._watch)

    def stop(self) -> None:
        """The drain is over, or was never begun; a second call does nothing."""
        self._pause.set()
        self._join()

    def _watch(self) -> None:
        told = 0
        while (due := self._limits.due(LimitKind.DRAIN, told)) is not None:
            taken = self._clock() - self._began
            if taken < due:
                if self._pause.wait(due - taken):
                    return
                continue
            self._exceeded(taken)
            if self._limits.policy != "wait":
                return
            told += 1
