"""The last rounds of a job, in which the outside is told how far the job has come."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sparkdrain.errors import NotAcknowledged
from sparkdrain.watermarks.frontier import BEGIN

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sparkdrain.rounds.messages import RoundReport

# How often, and how soon again, the outside is told before that is given up; microseconds.
_ATTEMPTS: Final = 3
_PAUSE: Final = 1_000_000


@dataclass(slots=True)
class LastRounds:
    """Tells the outside up to three times, a second apart.

    Attributes:
        wake: when the next round is to be run; processing time, microseconds since 1970.
        attempts: how many rounds have ended with complaints.
    """

    wake: int = BEGIN
    attempts: int = 0

    def committed(self, reports: Iterable[RoundReport], now: int) -> bool:
        """Take the reports of a last round; answers whether all finalizers have run.

        Raises:
            NotAcknowledged: a finalizer has failed in the last attempt, too.
        """
        complaints = [text for report in reports for text in report.complaints]
        if not complaints:
            return True
        self.attempts += 1
        if self.attempts == _ATTEMPTS:
            message = (
                "The job has done all of its work, and its output is complete. But bundle "
                "finalizers, which tell the outside how far the job has come, have failed in "
                f"{_ATTEMPTS} attempts: {'; '.join(complaints)}"
            )
            raise NotAcknowledged(message)
        self.wake = now + _PAUSE
        return False
