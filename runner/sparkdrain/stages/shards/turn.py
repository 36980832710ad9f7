"""What an input of a stage is told in a round, and how much it may do: the job's back-pressure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sparkdrain.harness.limits import Allowance
from sparkdrain.watermarks.frontier import BEGIN

if TYPE_CHECKING:
    from collections.abc import Callable


class Budget:
    """Shared by everything in a slot that makes elements of its own accord.

    Args:
        elements: how many may be made.
        seconds: how long it may take, from when the budget is first asked about: what a round
            does before that does not depend on it.
    """

    def __init__(self, elements: int, seconds: float, clock: Callable[[], float]) -> None:
        self._whole: Budget | None = None
        self._elements = elements
        self._left = elements
        self._clock = clock
        self._seconds = seconds
        self._ends: float | None = None
        self.was_spent = False
        """Whether a source or a timer stopped because of it."""

    @property
    def made(self) -> int:
        """How many elements were made."""
        return self._elements - self._left

    @property
    def _end(self) -> float:
        if self._ends is None:
            self._ends = self._clock() + self._seconds
        return self._ends

    def spend(self, elements: int) -> None:
        """Count elements that were made."""
        self._left -= elements
        if self._whole is not None:
            self._whole.spend(elements)

    def allowance(self) -> Allowance:
        """What is left, as an allowance of claims; count the claims with ``spend`` afterwards."""
        return Allowance(self._left, self._end, self._clock)

    def part(self, share: float) -> Budget:
        """A budget of its own, of that share of what is left; what it spends is spent here too."""
        elements = max(1, int(self._left * share))
        part = Budget(elements, self.seconds_left() * share, self._clock)
        part._whole = self
        return part

    def is_spent(self) -> bool:
        """Whether to stop at the next occasion."""
        # Each timer that fires comes here, so the property is asked once only.
        if self._left > 0 and self._clock() < (self._ends or self._end):
            return False
        self.was_spent = True
        if self._whole is not None:
            self._whole.was_spent = True
        return True

    def seconds_left(self) -> float:
        """How long one may go on."""
        return max(0.0, self._end - self._clock())


@dataclass(frozen=True, slots=True)
class Feed:
    """What the driver gives to a source that it plays itself, see ``TestStream``.

    Attributes:
        elements: (encoded element, timestamp in microseconds).
        frontier: the source's output frontier after them.
        before: the frontier that it had.
    """

    elements: tuple[tuple[bytes, int], ...]
    frontier: int
    before: int = BEGIN


@dataclass(frozen=True, slots=True)
class Turn:
    """What an input is told in a round.

    Attributes:
        before: its frontier when the round began: what is older than that is late.
        after: its frontier now.
        now: processing time, microseconds.
        feed: what the driver gives to a source that it plays itself.
        held: sources give nothing.
        draining: the job is drained.
        of_drain: the second part of a drained round: the drain has caused what is fed and fired.
        complete: up to where all elements are there, if that is more than ``after``.
        repeats: how many generations of timers may be set by timers; None: any number.
    """

    before: int
    after: int
    now: int
    budget: Budget
    feed: Feed | None = None
    held: bool = False
    draining: bool = False
    of_drain: bool = False
    complete: int | None = None
    repeats: int | None = None

    @property
    def complete_until(self) -> int:
        """Up to where all elements are there."""
        return self.after if self.complete is None else self.complete
