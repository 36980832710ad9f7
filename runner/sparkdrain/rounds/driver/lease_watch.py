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
OLD: Final = EVERY + 1.0
"""Seconds after which a look says nothing of the round that is to begin: this process was stopped,
or the storage does not answer. A storage that answers within a second keeps no round waiting."""
SILENT: Final = 30.0
"""Seconds without a look that has succeeded, after which no round begins."""
GIVEN_UP: Final = 300.0
"""Seconds without a look that has succeeded, after which the job ends."""
_PATIENCE: Final = 2.0
"""Seconds for which a round waits for a look. A storage that hangs costs one such wait, until it
counts as silent."""
_PAUSE: Final = 0.1
"""Seconds between two questions of a job that stands still."""
_REMEDY: Final = (
    "Another driver may have the job. See that --checkpoint_dir can be reached. Nothing is lost: "
    "the job goes on from its newest checkpoint with --resume."
)


class LeaseWatch:
    """Looks at a lease in a thread of its own, for as long as a life of a job takes.

    When another driver has the job, ``cancel`` is cancelled, which ends the running round, or the
    wait of a job that has nothing to do. What is raised then is ``Fenced``.

    One look that fails says nothing. If looks fail for ``SILENT`` seconds, the job stands still.

    Args:
        look: raises ``Fenced`` if the job is another driver's, and ``CheckpointFailed`` if the
            storage does not say.
        outer: ends the job for other reasons.
        folder: where the job's checkpoints are, for messages.
        every: seconds between two looks.

    Attributes:
        cancel: ends the job for either reason.
    """

    def __init__(
        self,
        look: Callable[[], None],
        outer: CancelToken,
        folder: str,
        every: float = EVERY,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.cancel = CancelToken()
        outer.on_cancel(self.cancel.cancel)
        self._look = look
        self._outer = outer
        self._folder = folder
        self._every = every
        self._clock = clock
        # When the last look began that has ended, and the last one that has succeeded.
        self._looked = self._seen = clock()
        self._why = "no answer"
        self._fenced: Fenced | None = None
        self._closed = False
        self._wanted = threading.Event()
        self._ended = threading.Event()
        self._hangs = False
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
        """Call this before effects: what was seen last may be old. Waits while looks fail for long.

        Raises:
            Fenced: the job is another driver's.
            Cancelled: the job was cancelled while this waited.
            CheckpointFailed: the storage has not said for ``GIVEN_UP`` seconds whose the job is.
        """
        self._look_anew()
        if self._silence() >= SILENT:
            self._stand_still()

    def _look_anew(self) -> None:
        """Have the thread look again, if its last look is old and no look hangs."""
        if self._clock() - self._looked >= OLD and not self._hangs:
            self._ended.clear()
            self._wanted.set()
            self._hangs = not self._ended.wait(_PATIENCE)
        self._raise()

    def _silence(self) -> float:
        return self._clock() - self._seen

    def _stand_still(self) -> None:
        _LOGGER.warning(
            "It is not known whether the job is still this driver's, since the claims in %s could "
            "not be listed for %.0f s (%s). The job stands still until they can be.",
            self._folder,
            self._silence(),
            self._why,
        )
        while (silence := self._silence()) >= SILENT:
            if silence >= GIVEN_UP:
                message = (
                    f"the claims in {self._folder} could not be listed for {silence:.0f} s: "
                    f"{self._why}. {_REMEDY}"
                )
                raise CheckpointFailed(message)
            if self.cancel.wait(_PAUSE):
                self._raise()
                message = "the job was cancelled"
                raise Cancelled(message)
            self._look_anew()

    def _raise(self) -> None:
        if self._fenced is not None:
            raise self._fenced

    def _is_over(self) -> bool:
        """Wait until a look is wanted or due. Returns whether no look is to come."""
        if not self._closed:
            self._wanted.wait(self._every)
        return self._closed

    def _run(self) -> None:
        while not self._is_over():
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
                self._why = str(error)
                _LOGGER.debug("It is not known whether the job is still this driver's: %s", error)
            self._looked = began
            self._hangs = False
            self._wanted.clear()
            self._ended.set()
