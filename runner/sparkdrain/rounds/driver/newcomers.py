"""Executors that have come too late to get slots: the user is told of them."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sparkdrain.hosts.executor import Executor
    from sparkdrain.rounds.driver.placement import Placement

_LOOK_SECONDS: Final = 30.0


class Newcomers:
    """Tells of each executor once that would have slots if the job began now, and has none.

    Args:
        placement: where slots are.
        executors: those that are alive; asked every 30 s at most.
        tell: takes a text.
        clock: seconds that pass.
    """

    def __init__(
        self,
        placement: Placement,
        executors: Callable[[], Sequence[Executor]],
        tell: Callable[[str], object],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._placement = placement
        self._executors = executors
        self._tell = tell
        self._clock = clock
        self._next = clock() + _LOOK_SECONDS
        self._told: frozenset[Executor] = frozenset()

    def look(self) -> None:
        """Find out whether there are any, if it is time for that."""
        now = self._clock()
        if now < self._next:
            return
        self._next = now + _LOOK_SECONDS
        new = self._placement.without_slots(self._executors()) - self._told
        if new:
            self._told |= new
            names = ", ".join(f"{one.id} on {one.host}" for one in sorted(new))
            self._tell(
                f"Executors that came after the slots of this job were placed have none: {names}. "
                "They get some when the job goes on from a checkpoint: with --checkpoint_dir, stop "
                "the program and start it again with --resume."
            )
