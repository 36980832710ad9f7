"""Takes part in an election in threads of its own, and says when this process begins to lead."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final

from sparkdrain.coordination.pulse import Pulse

if TYPE_CHECKING:
    from collections.abc import Callable

    from typing_extensions import Self

    from sparkdrain.coordination.election import Election

_IDLE_SECONDS: Final = 3600.0


class Leading:
    """Says when a candidate begins and ceases to lead. Resigns when it is closed.

    The end of a lease is told in time, also while the store hangs: steps and words have a thread
    each.

    Args:
        election: of which this process is a candidate.
        began: takes the fencing token when the candidate begins to lead. Must return soon.
        ended: called when it leads no more, before another can lead. Must return soon. Is called
            once after each ``began``, also when this is closed.
    """

    def __init__(
        self,
        election: Election,
        began: Callable[[int], object],
        ended: Callable[[], object],
    ) -> None:
        self._election = election
        self._began = began
        self._ended = ended
        self._closed = False
        self._stepped = threading.Event()
        self._pulse = Pulse(f"election-{election.name}", self._step)
        self._teller = threading.Thread(target=self._tell, name="leading", daemon=True)

    def __enter__(self) -> Self:
        self._pulse.start()
        self._teller.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Lead no more, tell that, and only then let another lead. A second call does nothing."""
        if self._closed:
            return
        self._closed = True
        self._stepped.set()
        self._teller.join()
        if self._pulse.close():
            self._election.resign()

    def _step(self) -> float:
        pause = self._election.step()
        self._stepped.set()
        return pause

    def _tell(self) -> None:
        told: int | None = None
        while True:
            token = None if self._closed else self._election.token()
            if token != told:
                if told is not None:
                    self._ended()
                if token is not None:
                    self._began(token)
                told = token
            if self._closed:
                return
            self._stepped.wait(_IDLE_SECONDS if token is None else self._election.remaining())
            self._stepped.clear()
