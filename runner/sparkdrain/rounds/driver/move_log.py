"""Which slots have moved to other executors, why, and how long that took."""

from __future__ import annotations

import time
from collections import defaultdict
from typing import TYPE_CHECKING, Final

from sparkdrain.english import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Set

    from sparkdrain.hosts.executor import Executor

MOVED: Final = "slotsMoved"
"""Counts slots that have moved to another executor."""

MILLIS: Final = "slotMoveMillis"
"""Counts the milliseconds for which the job made no rounds because slots moved."""

_ELSEWHERE: Final = "Their state is there."


class MoveLog:
    """The moves of a job, over all of its lives in one driver.

    Args:
        tell: takes a text for the job's user and its record.
        clock: seconds that pass.
    """

    def __init__(
        self, tell: Callable[[str], object], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._tell = tell
        self._clock = clock
        self._slots = 0
        self._seconds = 0.0
        self._committed: float | None = None
        self._displaced: tuple[Mapping[int, Executor], Set[Executor]] = {}, frozenset()

    def displaced(self, homes: Mapping[int, Executor], lost: Set[Executor]) -> None:
        """A life of the job begins, with slots elsewhere than in the one before.

        Args:
            homes: where each of them is to be.
            lost: executors that had slots, and are gone.
        """
        self._displaced = homes, lost

    def committed(self) -> None:
        """A round counts."""
        now = self._clock()
        (homes, lost), self._displaced = self._displaced, ({}, frozenset())
        if homes and self._committed is not None:
            gone = ", ".join(f"{one.id} on {one.host}" for one in sorted(lost))
            cause = f"Lost: {counted(len(lost), 'executor')}, {gone}." if lost else _ELSEWHERE
            self.moved(homes, cause, now - self._committed)
        self._committed = now

    def moved(self, homes: Mapping[int, Executor], cause: str, seconds: float) -> None:
        """Slots have moved.

        Args:
            homes: where each of them is now.
            cause: why they have moved, a sentence.
            seconds: for which the job made no rounds.
        """
        if not homes:
            return
        self._slots += len(homes)
        self._seconds += seconds
        there: dict[Executor, list[int]] = defaultdict(list)
        for slot, executor in sorted(homes.items()):
            there[executor].append(slot)
        places = "; ".join(
            f"{'slots' if len(slots) > 1 else 'slot'} {', '.join(map(str, slots))} to executor "
            f"{executor.id} on {executor.host}"
            for executor, slots in sorted(there.items())
        )
        self._tell(f"Moved: {places}. {cause} The job stood still for {seconds:.1f} s.")

    def counts(self) -> dict[str, int]:
        """The counters, of a job whose slots have moved."""
        return {MOVED: self._slots, MILLIS: round(1000 * self._seconds)} if self._slots else {}
