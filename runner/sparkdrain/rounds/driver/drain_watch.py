"""Tells how far a drain has come, and answers what one would find."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from sparkdrain.drain.progress import DrainProgress, advanced, began

if TYPE_CHECKING:
    from collections.abc import Callable

    from sparkdrain.drain.phases import DrainPhase
    from sparkdrain.drain.signal import DrainSignal
    from sparkdrain.rounds.driver.schedule import Schedule

# Microseconds between two surveys of a drain. In a survey every slot reads the row of each timer
# that it has, three million a second; so that they take less than a tenth of the time, they are
# the more seldom the more there is.
_EVERY: Final = 2_000_000
_EVERY_FOR_EACH: Final = 5


class DrainWatch:
    """Has slots count what is left inside, during a drain or on request; tells the sums.

    Args:
        tell: takes the progress of a drain.
    """

    def __init__(self, drain: DrainSignal, tell: Callable[[DrainProgress], object]) -> None:
        self._drain = drain
        self._tell = tell
        self._progress: DrainProgress | None = None
        self._question = 0
        self._survey = False
        self._last: int | None = None

    def is_asked(self) -> bool:
        """Whether a caller waits for an answer."""
        return self._drain.inquiry.wanted() > 0

    def wants(self, now: int) -> bool:
        """Whether the next round is to be a survey.

        Args:
            now: processing time, microseconds since 1970.
        """
        self._question = self._drain.inquiry.wanted()
        self._begin(now)
        if self._progress is not None:
            pause = max(_EVERY, self._progress.things * _EVERY_FOR_EACH)
            self._survey = self._last is None or now - self._last >= pause
        return self._survey or self._question > 0

    def _begin(self, now: int) -> None:
        requested = self._drain.requested()
        if requested is not None and self._progress is None:
            self._progress = began(requested.run_id, now)

    def entered(self, phase: DrainPhase, now: int) -> None:
        """The job has come to a phase: tell it, if a drain is requested."""
        self._begin(now)
        if self._progress is not None:
            self._progress = replace(self._progress, phase=phase, now=now)
            self._tell(self._progress)

    def committed(self, schedule: Schedule, now: int) -> None:
        """The round was committed."""
        if not (self._survey or self._question):
            return
        reports = sorted(schedule.reports(), key=lambda report: (report.level, report.slot))
        left = [left for report in reports for left in report.left]
        if self._question:
            found = advanced(began("", now), now, left, schedule.holds())
            self._drain.inquiry.answer(self._question, found)
        if self._survey and self._progress is not None:
            self._last = now
            self._progress = advanced(self._progress, now, left, schedule.holds())
            self._tell(self._progress)

    def over(self, phase: DrainPhase, now: int) -> None:
        """The job is over, so nothing is left."""
        self._drain.inquiry.decline("The job is over: there is nothing inside.")
        if self._progress is not None:
            left = [left.emptied() for left in self._progress.stages]
            before = replace(self._progress, phase=phase)
            self._tell(advanced(before, now, left, []))
