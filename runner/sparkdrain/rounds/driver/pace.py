"""How much work a round takes on, so that rounds last about as long as they should.

A round lasts as long as its elements take, what slots do however few there are, and what it costs
to have a round at all. Only the first follows the budget. Where the others are more than the target
allows, half of the time goes to elements: a budget that shrank with them would end in rounds that
do nothing.

Some jobs give elements more of the time that slots leave. A job that lags behind its sources gives
them seven eighths, or three quarters when rounds last more than five times as long as they should.
A job that is drained and has something due at once gives them eleven twelfths, because its user
waits for the end of the job, not for the next round.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sparkdrain.rounds.driver.fixed_work import FixedWork

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sparkdrain.rounds.messages import RoundReport

_FIRST_ELEMENTS: Final = 50_000
_LEAST_ELEMENTS: Final = 1_000
_MOST_ELEMENTS: Final = 5_000_000
_LEAST_SECONDS: Final = 0.005
# How much of a new measurement is believed, and how far the budget moves at one go.
_BELIEF: Final = 0.2
_ROOM: Final = 2
_ROOM_BEHIND: Final = 8
_ROOM_FAR_BEYOND: Final = 4
_FAR_BEYOND: Final = 5
_ROOM_DRAINING: Final = 12
_SHRINK: Final = 0.5
_GROW: Final = 1.5
# Of how many elements, of those it may make, a round can tell what more of them would do.
_USED: Final = 0.5
# Every so many such rounds one gets a part of the budget, to see how much shorter it gets.
_TRIAL_EVERY: Final = 20
_TRIAL: Final = 0.5


class Pace:
    """Adapts the budget of a round to a target.

    Args:
        target_seconds: how long a round should take.
        least_elements: the budget never gets smaller, but for trials.

    Attributes:
        seconds: how long sources and timers may go on.
        elements: how many elements they may make.
    """

    def __init__(self, target_seconds: float, least_elements: int = _LEAST_ELEMENTS) -> None:
        self._target = target_seconds
        self._least = least_elements
        self._cost = 0.0
        self._fixed_work = FixedWork()
        self._rounds = 0
        self._full = 0
        # The whole budget, while a round has a part of it.
        self._whole: tuple[float, int] | None = None
        self.seconds = target_seconds / 2
        self.elements = _FIRST_ELEMENTS

    def took(
        self,
        seconds: float,
        reports: Sequence[RoundReport],
        *,
        behind: bool = False,
        draining: bool = False,
    ) -> None:
        """A round was committed that took so long.

        Args:
            behind: the next round has something to do at once.
            draining: the job is drained.
        """
        work = work_of(reports)
        self._rounds += 1
        spent = self._spent(reports)
        whole = self._whole
        self._whole = None
        if whole is not None:
            self.seconds, self.elements = whole
        if self._rounds == 1:
            return  # it has started hosts, which no other one has to
        cost = max(0.0, seconds - work)
        self._cost += (cost - self._cost) * (1 if self._rounds == 2 else _BELIEF)
        if spent is None:
            # What the slot would have made of its whole budget is not known.
            self._fixed_work.forget_last()
            return
        self._fixed_work.saw(*spent, made_in(reports), work)
        if whole is None:
            self._follow(work, self._least_goal(behind=behind, draining=draining))
        self._full += 1
        if self._full % _TRIAL_EVERY == 0:
            self._try()

    def _spent(self, reports: Sequence[RoundReport]) -> tuple[str, float] | None:
        """The budget that the round used up: its kind, and how much."""
        if any(report.made >= _USED * self.elements for report in reports):
            return "elements", self.elements
        if any(report.spent and report.made for report in reports):
            return "seconds", self.seconds
        return None

    def _least_goal(self, *, behind: bool, draining: bool) -> float:
        """How long a round should take because of what it costs beside its slots."""
        if not behind:
            return _ROOM * self._cost
        if draining:
            return _ROOM_DRAINING * self._cost
        most = max(_FAR_BEYOND * self._target, _ROOM_FAR_BEYOND * self._cost)
        return min(_ROOM_BEHIND * self._cost, most)

    def _follow(self, work: float, least_goal: float) -> None:
        fixed = self._fixed_work.of(work)
        goal = max(self._target, least_goal, _ROOM * (self._cost + fixed))
        ratio = (goal - self._cost - fixed) / max(work - fixed, 1e-6)
        factor = max(_SHRINK, min(_GROW, ratio))
        self.seconds = max(_LEAST_SECONDS, min(goal - self._cost, self.seconds * factor))
        self.elements = max(self._least, min(_MOST_ELEMENTS, int(self.elements * factor)))

    def _try(self) -> None:
        self._whole = self.seconds, self.elements
        self.seconds *= _TRIAL
        self.elements = max(1, int(self.elements * _TRIAL))


def work_of(reports: Sequence[RoundReport]) -> float:
    """How long the slots of a round were at work: those of a level at the same time."""
    slowest: dict[int, float] = {}
    for report in reports:
        slowest[report.level] = max(slowest.get(report.level, 0.0), report.busy)
    return sum(slowest.values())


def made_in(reports: Sequence[RoundReport]) -> int:
    """How many elements a round made of its own accord, as far as they came one after another."""
    most: dict[int, int] = {}
    for report in reports:
        most[report.level] = max(most.get(report.level, 0), report.made)
    return sum(most.values())
