"""Up to which times timers are due, and how many of them may fire."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

from sparkdrain.watermarks.frontier import END


class FiringBudget(Protocol):
    """How many timers may still fire."""

    def spend(self, elements: int) -> None:
        """Count timers that have fired."""

    def is_spent(self) -> bool:
        """Whether no further timer may fire."""


class _Unbounded:
    """A budget for any number of timers."""

    def spend(self, elements: int) -> None:
        """See ``FiringBudget``."""

    def is_spent(self) -> bool:
        """See ``FiringBudget``."""
        return False


@dataclass(frozen=True, slots=True)
class UpTo:
    """What is due.

    Attributes:
        event: event time in microseconds; an event timer at this time or earlier is due.
        processing: the same for timers of processing time.
        budget: how many timers may fire.
        repeats: how many generations of timers may be set by timers; None: any number.
    """

    event: int
    processing: int
    budget: FiringBudget
    repeats: int | None = None


EVERYTHING: Final = UpTo(END, END, _Unbounded())
"""Time is at its end: all timers are due."""
