"""What each input of a shard does in a round, and what is left inside of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sparkdrain.watermarks.frontier import END
from timers_state import Domain

if TYPE_CHECKING:
    from sparkdrain.stages.shards.turn import Turn

Count = Callable[[int, Domain], int]
"""How many timers a state has, by its number, that follow a clock."""


@dataclass(frozen=True, slots=True)
class Inside:
    """How much is left inside of some inputs, with the meaning that ``drain.progress.Left`` has.

    Attributes:
        windows: windows with content, counted for each key.
        timers: timers of user code that are still to fire.
        parked: elements that wait for something.
        residuals: restrictions that are still to be processed.
    """

    windows: int = 0
    timers: int = 0
    parked: int = 0
    residuals: int = 0

    def __add__(self, other: Inside) -> Inside:
        return Inside(
            self.windows + other.windows,
            self.timers + other.timers,
            self.parked + other.parked,
            self.residuals + other.residuals,
        )


NOTHING = Inside()


class Input:
    """One way into a stage. Its state is in the slot's overlay: a round can be undone.

    As it is here, it takes nothing and keeps nothing.
    """

    @property
    def reason(self) -> str:
        """Why it holds the output frontier back, in a word or two."""
        return ""

    @property
    def spilled(self) -> int:
        """Bytes of input that went to disk."""
        return 0

    def take(self, payload: memoryview) -> None:
        """Take a block of the edge in; more may come."""

    def process(self, turn: Turn) -> None:
        """All blocks of the round were taken: process what they brought."""

    def advance(self, turn: Turn) -> None:
        """The frontier is ``turn.after``: fire what is due, as far as the budget goes."""

    def hold(self) -> int:
        """The earliest time that elements made later may have; END if none will be."""
        return END

    def wake(self) -> int | None:
        """The processing time at which there is something to do, even without input."""
        return None

    def take_dropped(self) -> int:
        """How many elements were dropped as late since the last call."""
        return 0

    def commit(self) -> None:
        """What happened in the last round counts."""

    def inside(self, count: Count) -> Inside:
        """What is left, as it was committed."""
        return NOTHING

    def close(self) -> None:
        """Give files back."""
