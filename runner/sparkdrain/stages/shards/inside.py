"""What is left inside of a stage's inputs, in numbers; for people, and for a drain."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from timers_state import Domain

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
