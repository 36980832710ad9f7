"""Looks all the time whether a job is still this driver's, and stops the driver if it is not."""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING, Final

from sparkdrain.errors import Cancelled, CheckpointFailed, Fenced
from sparkdrain.types import CancelToken

if TYPE_CHECKING:
    from collections.abc import Callable

    from typing_extensions import Self

_LOGGER = logging.getLogger(__name__)
EVERY: Final = 3.0
"""Seconds between two looks; each is one listing of a folder with a few files."""
OLD: Final = 10.0
"""Seconds after which a look says nothing of the round that is to begin: this process was stopped,
or the storage does not answer."""
_PATIENCE: Final = 2.0
"""Seconds for which a round waits for a look. A storage that hangs costs one such wait."""


class LeaseWatch:
    """Looks at a lease in a thread of its own, for as long as a life of a job takes.

    When another driver has the job, ``cancel`` is cancelled, which ends the running round, or the
    wait of a job that has nothing to do. What is raised then is ``Fenced``.

    A look that fails says nothing: checkpoints need the same storage, and they end the job.

    Args:
        look: raises ``Fenced`` if the job is another driver's.
        outer: ends the job for other reasons.
        every: seconds between two looks.
        clock: seconds that pass.

    Attributes:
        cancel: ends the job for either reason.
    """

    def __init__(
        self,
        look: Callable[[], None],
        outer: CancelToken,
        every: float = EVERY,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.cancel = CancelToken()
        outer.on_cancel(self.cancel.cancel)
        self._look = look
        self._outer = outer
        self._every = every
        self._clock = clock
        self._seen = clock()
        self._fenced: Fenced | None = None
        self._closed = False
        self._wanted = threading.Event()
        self._ended = threading.Event()
        self._is_silent = False
        self._thread = threading.Thread(target=self._run, name="lease", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self._closed = True
        self._wanted.set()
        if isinstance(error, Cancelled) and not self._outer.is_cancelled():
            self._raise()

    def check(self) -> None:
        """Call this before effects: what was seen last may be old.

        Raises:
            Fenced: the job is another driver's.
        """
        if self._clock() - self._seen >= OLD and not self._is_silent:
            self._ended.clear()
            self._wanted.set()
            self._is_silent = not self._ended.wait(_PATIENCE)
        self._raise()

    def _raise(self) -> None:
        if self._fenced is not None:
            raise self._fenced

    def _run(self) -> None:
        while True:
            self._wanted.wait(self._every)
            self._wanted.clear()
            if self._closed:
                return
            began = self._clock()
            try:
                self._look()
                self._seen = began
            except Fenced as fenced:
                self._fenced = fenced
                self._ended.set()
                self.cancel.cancel()
                return
            except CheckpointFailed as error:
                _LOGGER.debug("It is not known whether the job is still this driver's: %s", error)
            self._is_silent = False
            self._ended.set()
