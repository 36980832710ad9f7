"""What the driver's loop asks about checkpoints, and a job that makes none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from typing_extensions import override

from sparkdrain.drain.phases import INSTRUCTIONS
from sparkdrain.errors import NotAcknowledged
from sparkdrain.rounds.messages import Orders
from sparkdrain.watermarks.frontier import BEGIN

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sparkdrain.drain.notification import DrainNotification
    from sparkdrain.drain.phases import DrainPhase
    from sparkdrain.rounds.driver.checkpoint_flight import Cut
    from sparkdrain.rounds.driver.schedule import LevelSlot, Schedule
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


class Checkpoints(Protocol):
    """Makes the state of a job durable, and says what that needs of the next round.

    Attributes:
        has_cut: the newest checkpoint says that sources are cut, or none has to.
        newest: what the newest checkpoint covers, if this driver has published one.
        failures: how many checkpoints have failed in a row.
    """

    has_cut: bool
    newest: Cut | None
    failures: int

    def enter(self, phase: DrainPhase, request: DrainNotification | None = None) -> None:
        """Take that the job has come to a phase.

        Args:
            phase: if its sources are cut, or the job ends, a checkpoint is made at once that says
                so.
            request: to drain the job, if there is one.
        """

    def wake(self) -> int | None:
        """The processing time at which a round is wanted, even if the job has nothing to do."""

    def orders(self, schedule: Schedule, play: int, now: int) -> Orders:
        """What the next round is to do; the same for all of its attempts."""

    def committed(self, reports: Sequence[RoundReport], now: int) -> None:
        """The round that had the last orders was committed."""

    def hurry(self) -> None:
        """The job waits for the next checkpoint."""

    def rest(self) -> bool:
        """Whether no checkpoint is on its way. If one is, the next round begins no other."""


class NoCheckpoints(Checkpoints):
    """A job whose state is not made durable."""

    has_cut = True
    newest = None
    failures = 0

    def __init__(self) -> None:
        self._unsettled: set[LevelSlot] = set()
        self._last: LastRounds | None = None

    @override
    def enter(self, phase: DrainPhase, request: DrainNotification | None = None) -> None:
        if phase in INSTRUCTIONS and INSTRUCTIONS[phase].ends:
            self._last = LastRounds()

    @override
    def wake(self) -> int | None:
        return None if self._last is None or not self._unsettled else self._last.wake

    @override
    def orders(self, schedule: Schedule, play: int, now: int) -> Orders:
        if self._last is None:
            return Orders()
        return Orders(levels=frozenset(level for level, _ in self._unsettled), last=True)

    def committed(self, reports: Sequence[RoundReport], now: int) -> None:
        """See ``Checkpoints``.

        Raises:
            NotAcknowledged: at the end, the outside could not be told.
        """
        for report in reports:
            self._unsettled.discard((report.level, report.slot))
            if report.unsettled:
                self._unsettled.add((report.level, report.slot))
        if self._last is not None:
            self._last.committed(reports, now)

    @override
    def hurry(self) -> None:
        pass

    @override
    def rest(self) -> bool:
        return True
