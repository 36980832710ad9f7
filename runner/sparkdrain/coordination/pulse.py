"""Calls a step again and again, in a thread of its own."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

_LOGGER = logging.getLogger(__name__)
_AFTER_ERROR: Final = 1.0
"""Seconds until the next step, after a step that has raised an unexpected error."""
_PATIENCE: Final = 5.0
"""Seconds for which ``close`` waits for a step that is on; its store may hang."""


class Pulse:
    """Calls a step until it is closed.

    Args:
        name: what its thread is called.
        step: returns the seconds until it is to be called again.
    """

    def __init__(self, name: str, step: Callable[[], float]) -> None:
        self._step = step
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Begin, with a step at once."""
        self._thread.start()

    def close(self) -> bool:
        """Step no more.

        Returns:
            Whether no step is on any more; else it still waits for its store.
        """
        self._over.set()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join(_PATIENCE)
        return not self._thread.is_alive()

    def _run(self) -> None:
        pause = 0.0
        while not self._over.wait(pause):
            try:
                pause = self._step()
            except Exception:
                _LOGGER.exception("The next step of %s is tried again.", self._thread.name)
                pause = _AFTER_ERROR
