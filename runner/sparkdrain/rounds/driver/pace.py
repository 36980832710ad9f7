"""How much work a round takes on, so that rounds last about as long as they should.

A round lasts as long as its work (what the slots did, level after level) and what it costs to have
one at all. Only the first follows the budget. Where rounds cost more than the target allows, half
of their time goes to work: a budget that shrank with them would end in rounds that do nothing. A
job that lags behind its sources gives three quarters to work, whatever the target.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from sparkdrain.rounds.messages import RoundReport

_FIRST_ELEMENTS: Final = 50_000
_LEAST_ELEMENTS: Final = 1_000
_MOST_ELEMENTS: Final = 5_000_000
_LEAST_SECONDS: Final = 0.005
# How much of a new measurement is believed, and how far the budget moves at one go.
_BELIEF: Final = 0.2
_ROOM: Final = 2
_ROOM_BEHIND: Final = 4
_SHRINK: Final = 0.5
_GROW: Final = 1.25


class Pace:
    """Adapts the budget of a round to a target.

    Args:
        target_seconds: how long a round should take.
        least_elements: the budget never gets smaller.

    Attributes:
        seconds: how long sources and timers may go on.
        elements: how many elements they may make.
    """

    def __init__(self, target_seconds: float, least_elements: int = _LEAST_ELEMENTS) -> None:
        self._target = target_seconds
        self._least = least_elements
        self._cost = 0.0
        self._rounds = 0
        self.seconds = target_seconds / 2
        self.elements = _FIRST_ELEMENTS

    def took(self, seconds: float, reports: list[RoundReport], *, behind: bool = False) -> None:
        """A round was committed that took so long.

        Args:
            seconds: how long.
            reports: of its slots.
            behind: something is due at once, so nobody waits for the end of this round alone.
        """
        work = work_of(reports)
        self._learn(max(0.0, seconds - work))
        goal = max(self._target, (_ROOM_BEHIND if behind else _ROOM) * self._cost)
        ratio = (goal - self._cost) / max(work, 1e-6)
        factor = max(_SHRINK, min(_GROW, ratio))
        self.seconds = max(_LEAST_SECONDS, min(goal - self._cost, self.seconds * factor))
        self.elements = max(self._least, min(_MOST_ELEMENTS, int(self.elements * factor)))

    def _learn(self, cost: float) -> None:
        self._rounds += 1
        # The first round starts hosts, which no other one has to.
        if self._rounds == 2:
            self._cost = cost
        elif self._rounds > 2:
            self._cost += _BELIEF * (cost - self._cost)


def work_of(reports: list[RoundReport]) -> float:
    """How long the slots of a round were at work: those of a level at the same time."""
    slowest: dict[int, float] = {}
    for report in reports:
        slowest[report.level] = max(slowest.get(report.level, 0.0), report.busy)
    return sum(slowest.values())
