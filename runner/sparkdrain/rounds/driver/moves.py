"""Slots of a running job move to executors that came after it had begun.

The job goes on until a checkpoint is published that was begun after it was known who is to move.
With ``--state_dir``, the executors that slots move to then fetch its files, while the job goes on.
After that it stands still for another one, which has little to upload. From that one the slots
that move are opened anew. All others stay as they are.
"""

from __future__ import annotations

import time
from collections import defaultdict
from typing import TYPE_CHECKING, Final

from sparkdrain.english import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence, Set

    from sparkdrain.hosts.executor import Executor
    from sparkdrain.rounds.driver.placement import Placement
    from sparkdrain.rounds.driver.supply import HostSupply

MOVED: Final = "slotsMoved"
"""Counts slots that have moved to another executor."""

MILLIS: Final = "slotMoveMillis"
"""Counts the milliseconds for which the job made no rounds because slots moved."""
_LOOK_SECONDS: Final = 5.0
_TIMES: Final = 3
"""How often files are brought before slots move: the last time, what was made meanwhile."""
_TOLD: Final = 2
"""How often in a row slots may stay because of their files before the user hears of it."""


class SlotMoves:
    """Says when slots are to move, and has them move.

    A slot moves when its files are where it goes; its old home has it until then.

    Args:
        executors: those that are alive.
        reopen: ends slots, and lets them be opened in a round.
        supply: brings files; None if hosts keep none: slots move without them.
    """

    def __init__(
        self,
        placement: Placement,
        newcomers: Newcomers,
        executors: Callable[[], Sequence[Executor]],
        reopen: Callable[[frozenset[int], int], object],
        supply: HostSupply | None,
        log: MoveLog,
        warn: Callable[[str], object],
    ) -> None:
        self._placement = placement
        self._newcomers = newcomers
        self._executors = executors
        self._reopen = reopen
        self._supply = supply
        self._log = log
        self._warn = warn
        self._stayed = 0
        # What is on its way, the newest checkpoint when that was begun, and how often it was.
        self._moving: Mapping[int, Executor] = {}
        self._number = 0
        self._times = 0
        self._moved: Mapping[int, Executor] = {}

    def are_wanted(self) -> bool:
        """Whether a slot is to be elsewhere."""
        return bool(self._newcomers.found())

    def are_ready(self, number: int) -> bool:
        """Whether slots can move now; what they need is brought meanwhile.

        Args:
            number: the newest published checkpoint.
        """
        if not self._moving:
            self._moving, self._times = self._placement.moving(self._executors()), 0
            self._bring(number)
        if self._there() is not None and number > self._number and self._times < _TIMES:
            # What was made meanwhile is little now.
            self._bring(number)
        if self._there() is None:
            return False
        if not self._can_move():
            self._tell_who_stays()
            self._forget()  # and find them again: the storage may answer then
            return False
        return True

    def begin(self, number: int) -> frozenset[int]:
        """End the slots that move; in round ``number`` they are opened where they belong."""
        self._tell_who_stays()
        self._moved = self._placement.move(self._executors(), self._can_move())
        self._forget()
        slots = frozenset(self._moved)
        if slots:
            self._reopen(slots, number)
        return slots

    def over(self, seconds: float) -> None:
        """Take that the slots have moved, and for how many seconds the job has stood still."""
        new = sorted(set(self._moved.values()))
        names = ", ".join(one.id for one in new)
        cause = f"{counted(len(new), 'executor')} came after the job had begun: {names}."
        self._log.moved(self._moved, cause, seconds)

    def close(self) -> None:
        """Nothing moves any more. Does not wait for files that are on their way."""
        if self._supply is not None:
            self._supply.close()

    def _bring(self, number: int) -> None:
        self._number = number
        self._times += 1
        if self._supply is None:
            return
        far = {
            slot: home
            for slot, home in self._moving.items()
            if not self._placement.is_near(slot, home)
        }
        self._supply.begin(far)

    def _there(self) -> Set[int] | None:
        return self._moving.keys() if self._supply is None else self._supply.there()

    def _can_move(self) -> Mapping[int, Executor]:
        there = self._there() or frozenset()
        return {
            slot: home
            for slot, home in self._moving.items()
            if slot in there or self._placement.is_near(slot, home)
        }

    def _tell_who_stays(self) -> None:
        stay = sorted(set(self._moving) - self._can_move().keys())
        self._stayed = self._stayed + 1 if stay else 0
        if self._stayed == _TOLD and self._supply is not None:
            where = {
                f"{home.id} on {home.host}" for slot, home in self._moving.items() if slot in stay
            }
            self._warn(
                f"{counted(len(stay), 'slot')} cannot move to executor "
                f"{', '.join(sorted(where))}, because files could not be brought there "
                f"{self._stayed} times in a row: {self._supply.wrong or 'the cause is not known'}. "
                "The job goes on where its slots are, and tries again. See that executors reach "
                "--checkpoint_dir, and that --state_dir has room. If checkpoints are removed "
                "before they are fetched, raise --checkpoints_kept."
            )

    def _forget(self) -> None:
        self._moving = {}
        self._newcomers.forget()


class Newcomers:
    """Finds executors that would have slots if the job began now, and have none.

    Executors come one after the other. They are found when two looks in a row see the same ones.

    Args:
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
            cause = f"Lost: {counted(len(lost), 'executor')}, {gone}."
            self.moved(homes, cause if lost else "Their state is there.", now - self._committed)
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
