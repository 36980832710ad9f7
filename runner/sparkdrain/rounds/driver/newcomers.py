"""Executors that have come too late to get slots when a streaming job began."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sparkdrain.hosts.executor import Executor
    from sparkdrain.rounds.driver.placement import Placement

_LOOK_SECONDS: Final = 5.0


class Newcomers:
    """Finds executors that would have slots if the job began now, and have none.

    Executors come one after the other. They are found when two looks in a row see the same ones.

    Args:
        placement: where slots are.
        executors: those that are alive; asked every 5 s at most.
        clock: seconds that pass.
    """

    def __init__(
        self,
        placement: Placement,
        executors: Callable[[], Sequence[Executor]],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._placement = placement
        self._executors = executors
        self._clock = clock
        self._next = clock() + _LOOK_SECONDS
        self._seen: frozenset[Executor] = frozenset()
        self._found: frozenset[Executor] = frozenset()
        self._told: frozenset[Executor] = frozenset()

    def found(self) -> frozenset[Executor]:
        """The executors without slots that are there."""
        now = self._clock()
        if now >= self._next:
            self._next = now + _LOOK_SECONDS
            seen = self._placement.without_slots(self._executors())
            self._found = seen if seen == self._seen else frozenset()
            self._seen = seen
        return self._found

    def forget(self) -> None:
        """Forget executors that were seen, because they have slots now."""
        self._seen = self._found = frozenset()

    def tell(self, warn: Callable[[str], object]) -> None:
        """Tell a user whose job keeps no checkpoints of each of them once."""
        new = self.found() - self._told
        if new:
            self._told |= new
            names = ", ".join(f"{one.id} on {one.host}" for one in sorted(new))
            warn(
                f"Executors that came after the slots of this job were placed have none: {names}. "
                "The state of a job without --checkpoint_dir cannot move. With it, slots move to "
                "executors that come."
            )
