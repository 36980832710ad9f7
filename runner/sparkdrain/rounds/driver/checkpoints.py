"""What the driver's loop asks about checkpoints, and a job that makes none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from typing_extensions import override

from sparkdrain.drain.phases import INSTRUCTIONS
from sparkdrain.rounds.driver.last_rounds import LastRounds
from sparkdrain.rounds.messages import Orders

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sparkdrain.drain.phases import DrainPhase
    from sparkdrain.rounds.driver.checkpoint_flight import Cut
    from sparkdrain.rounds.driver.schedule import LevelSlot, Schedule
    from sparkdrain.rounds.messages import RoundReport


class Checkpoints(Protocol):
    """Makes the state of a job durable, and says what that needs of the next round."""

    def enter(self, phase: DrainPhase, request: bytes | None = None) -> None:
        """Take that the job has come to a phase.

        Args:
            phase: if its sources are cut, or the job ends, a checkpoint is made at once that says
                so.
            request: the request to drain the job, encoded, if there is one.
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

    @property
    def has_cut(self) -> bool:
        """Whether the newest checkpoint says that sources are cut, or none has to."""

    @property
    def newest(self) -> Cut | None:
        """What the newest checkpoint covers, if this driver has published one."""

    @property
    def failures(self) -> int:
        """How many checkpoints have failed in a row."""


class NoCheckpoints(Checkpoints):
    """A job whose state is not made durable."""

    has_cut = True
    newest = None
    failures = 0

    def __init__(self) -> None:
        self._unsettled: set[LevelSlot] = set()
        self._last: LastRounds | None = None

    @override
    def enter(self, phase: DrainPhase, request: bytes | None = None) -> None:
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
