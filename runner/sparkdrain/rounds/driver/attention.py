"""What ends the waiting of a job that has nothing to do."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sparkdrain.drain.signal import DrainSignal
    from sparkdrain.types import CancelToken


class Attention:
    """Wakes the driver while it waits: for a cancellation, a drain, a question, or a lost host.

    To miss nothing, call ``clear``, then look for what is wanted, then wait again.
    """

    def __init__(self, cancel: CancelToken, drain: DrainSignal | None = None) -> None:
        self._wanted = threading.Event()
        cancel.on_cancel(self._wanted.set)
        if drain is not None:
            drain.on_request(self._wanted.set)
            drain.inquiry.on_ask(self._wanted.set)

    def wake(self) -> None:
        """End the wait, for a reason that the driver looks for itself."""
        self._wanted.set()

    def is_cancelled(self) -> bool:
        """Whether waiting is to end."""
        return self._wanted.is_set()

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until something is wanted, or for that long; answers ``is_cancelled``."""
        return self._wanted.wait(seconds)

    def clear(self) -> None:
        """What was wanted up to now is looked for next."""
        self._wanted.clear()
