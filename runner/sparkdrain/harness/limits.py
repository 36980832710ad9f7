"""How much a stage may do of its own accord: which timers may fire, what sources may claim."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from typing_extensions import override

from sparkdrain.watermarks.frontier import END

if TYPE_CHECKING:
    from collections.abc import Callable


class FiringBudget(Protocol):
    """How many timers may still fire."""

    def spend(self, elements: int) -> None:
        """Count timers that have fired."""

    def is_spent(self) -> bool:
        """Whether no further timer may fire."""


class _Unbounded(FiringBudget):
    """A budget for any number of timers."""

    @override
    def spend(self, elements: int) -> None:
        pass

    @override
    def is_spent(self) -> bool:
        return False


@dataclass(frozen=True, slots=True)
class UpTo:
    """What is due.

    Attributes:
        event: event time in microseconds; an event timer at this time or earlier is due.
        processing: the same for timers of processing time.
        repeats: how many generations of timers may be set by timers; None: any number.
    """

    event: int
    processing: int
    budget: FiringBudget
    repeats: int | None = None


EVERYTHING: Final = UpTo(END, END, _Unbounded())
"""Time is at its end: all timers are due."""


@dataclass(frozen=True, slots=True)
class Allowance:
    """How much may be claimed of one restriction.

    Attributes:
        claims: how often; once it is always allowed.
        until: at which time claims end.
        clock: tells the time.
    """

    claims: int
    until: float
    clock: Callable[[], float]
