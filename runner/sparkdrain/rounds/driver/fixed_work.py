"""How much of a round's work is the same however much it may do."""

from __future__ import annotations

from collections import deque
from statistics import median
from typing import Final, NamedTuple

# How different two budgets must be to tell anything, and how many such pairs are remembered and
# needed. Single ones are wrong whenever the machine becomes faster or slower in between.
_DIFFERENT: Final = 0.25
_REMEMBERED: Final = 7
_NEEDED: Final = 3
# Some of the work is always that of elements.
_MOST: Final = 0.9


class _Spent(NamedTuple):
    """A round that used its budget up, see ``FixedWork.saw``."""

    kind: str
    budget: float
    made: int
    work: float


class FixedWork:
    """Compares each round that used its budget up with the one before it; believes the median.

    A line through two rounds with different budgets says what is left of the work without any. A
    fit of work to elements over many rounds would not do: budgets follow the time that rounds take,
    so on a machine whose speed changes, few elements and much work come together; and where few
    elements come, it is chance how many a round has.
    """

    def __init__(self) -> None:
        self._seen: deque[float] = deque(maxlen=_REMEMBERED)
        self._last: _Spent | None = None

    def saw(self, kind: str, budget: float, made: int, work: float) -> None:
        """A round used a budget up.

        Args:
            kind: what the budget counts; budgets of different kinds cannot be compared.
            budget: how much it was.
            made: how many elements.
            work: how many seconds that took.
        """
        last, self._last = self._last, _Spent(kind, budget, made, work)
        if last is None or last.kind != kind:
            return
        apart = budget - last.budget
        are_alike = abs(apart) < _DIFFERENT * max(budget, last.budget)
        if are_alike or apart * (made - last.made) <= 0:
            return
        slope = (work - last.work) / apart
        self._seen.append(max(0.0, min(work - slope * budget, work, last.work)))

    def forget_last(self) -> None:
        """The next round is not to be compared with the one before it."""
        self._last = None

    def of(self, work: float) -> float:
        """How many seconds of such a round's work are fixed."""
        if len(self._seen) < _NEEDED:
            return 0.0
        return min(median(self._seen), _MOST * work)
