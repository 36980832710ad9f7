"""When a job's state is made durable, and what is known of the checkpoint that is on its way.

One checkpoint at a time. It covers the rounds that were committed when it was begun: the next round
tells all slots to keep that version of their state, and to upload it while rounds go on. When the
last slot has said that its part is there, the checkpoint is published, while rounds go on too. From
then on it is what a recovery goes back to, and what it covers counts as done to the outside.

A job ends with two. The first one has all that it has done, and says that nothing is left but to
tell the outside. Everybody is told then, and waited for. Only after that the second one, of the
same state, says that the job is over; so whoever finds the first one tells the outside again.
"""

from __future__ import annotations

import enum
import logging
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, Protocol

from sparkdrain.errors import CheckpointFailed, NotAcknowledged
from sparkdrain.rounds.messages import Orders
from sparkdrain.watermarks.frontier import BEGIN

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sparkdrain.checkpoints.upload import Uploaded
    from sparkdrain.rounds.driver.schedule import Schedule, Shard
    from sparkdrain.rounds.messages import RoundReport

_LOGGER = logging.getLogger(__name__)
_REMEDY: Final = (
    "Nothing is lost: once there is room and a way to write in --checkpoint_dir, and on the disks "
    "that hold state (spark.local.dir), the job goes on from the checkpoint before with --resume."
)
# How often slots that have nothing else to do are asked how far they are; microseconds.
_POLL: Final = 100_000
# How often a job that has nothing else to do looks whether a checkpoint is published.
_POLL_PUBLISHING: Final = 10_000
# How often, and how soon again, the outside is told at the end of a job before that is given up.
_LAST_ATTEMPTS: Final = 3
_LAST_PAUSE: Final = 1_000_000
# An upload that takes longer than this many intervals, and than ten minutes, is given up.
_PATIENCE_INTERVALS: Final = 10
_PATIENCE: Final = 600_000_000


class Phase(enum.Enum):
    """How far a job is, according to a checkpoint; the value is what is written down."""

    GOING_ON = "going on"
    PUBLISHING = "publishing"
    """Everything is done; the outside may not know of all of it."""
    OVER = "over"
    """Nothing is left to do, and everybody knows."""


@dataclass(frozen=True, slots=True)
class Cut:
    """All of a job's state after a round, ready to be published.

    Attributes:
        number: counts checkpoints, from one.
        round: the last round that it covers.
        play: the place of the sources that the driver plays.
        drain: the request to drain the job, if there is one: its sources are cut here, or were.
        phase: how far the job is.
        reports: what each slot reported last.
        files: where the state of each slot is.
    """

    number: int
    round: int
    play: int
    phase: Phase
    drain: bytes | None
    reports: Mapping[Shard, RoundReport]
    files: Mapping[Shard, Uploaded]


class Publication(Protocol):
    """Makes complete checkpoints the newest ones, one at a time."""

    def publish(self, cut: Cut) -> None:
        """Begin to; does not wait."""

    def is_published(self) -> bool:
        """Whether the last one is.

        Raises:
            CheckpointFailed: it could not be; also ``Fenced``.
        """


class Checkpoints(Protocol):
    """What the driver's loop asks about checkpoints."""

    def wake(self) -> int | None:
        """The processing time at which a round is wanted, even if the job has nothing to do."""

    def orders(self, schedule: Schedule, play: int, now: int) -> Orders:
        """What the next round is to do; the same for all of its attempts."""

    def committed(self, reports: Sequence[RoundReport], now: int) -> None:
        """The round that had the last orders was committed."""

    def hurry(self) -> None:
        """The job waits for the next one."""

    def cut(self, drain: bytes) -> None:
        """The job is to be drained: a checkpoint is wanted, at once, that says so."""

    @property
    def is_cut(self) -> bool:
        """Whether there is one."""

    def finish(self) -> None:
        """Nothing is left to do: the last checkpoints are wanted, at once."""


class NoCheckpoints:
    """A job whose state is not made durable."""

    is_cut = True

    def __init__(self) -> None:
        self._unsettled: set[Shard] = set()
        self._last: _LastWords | None = None

    def wake(self) -> int | None:
        """See ``Checkpoints``."""
        return None if self._last is None or not self._unsettled else self._last.wake

    def orders(self, schedule: Schedule, play: int, now: int) -> Orders:
        """See ``Checkpoints``."""
        del schedule, play, now
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

    def hurry(self) -> None:
        """See ``Checkpoints``."""

    def cut(self, drain: bytes) -> None:
        """See ``Checkpoints``."""

    def finish(self) -> None:
        """See ``Checkpoints``."""
        self._last = _LastWords()


@dataclass(slots=True)
class _LastWords:
    """The rounds in which the outside is told, and waited for."""

    wake: int = BEGIN
    attempts: int = 0

    def committed(self, reports: Sequence[RoundReport], now: int) -> bool:
        """Whether everybody has been told.

        Raises:
            NotAcknowledged: somebody could not be, too often.
        """
        complaints = [text for report in reports for text in report.complaints]
        if not complaints:
            return True
        self.attempts += 1
        if self.attempts == _LAST_ATTEMPTS:
            message = (
                "Everything is done, and what came out is out, but those who are to be told how "
                f"far the job has come could not be: {'; '.join(complaints)}"
            )
            raise NotAcknowledged(message)
        self.wake = now + _LAST_PAUSE
        return False


@dataclass(slots=True)
class _Flight:
    """A checkpoint on its way."""

    cut: Cut
    since: int
    waiting: set[Shard]
    begun: bool = False
    publishing: bool = False
    asked: int = 0
    files: dict[Shard, Uploaded] = field(default_factory=dict)


class Checkpointing:
    """Checkpoints in intervals; see ``Checkpoints``. Does no I/O but through ``publication``.

    Args:
        interval: between the beginnings of two checkpoints, microseconds.
        publication: makes a complete checkpoint the newest one.
        attempts: how many checkpoints may fail in a row before the job does.
        number: of the last checkpoint that was published, 0 if none was.
        is_cut: that one says that the job is drained.
    """

    def __init__(
        self,
        interval: int,
        publication: Publication,
        attempts: int = 3,
        *,
        number: int = 0,
        is_cut: bool = False,
    ) -> None:
        self._interval = interval
        self._publication = publication
        self._attempts = attempts
        self._number = self.published = number
        self._began: int | None = None
        self._flight: _Flight | None = None
        self._failures = 0
        self._place = 0
        # Whether something has happened that no checkpoint covers, on its way or there.
        self._dirty = False
        self._finishing = False
        self._drain: bytes | None = None
        self._urgent = False
        # The number of the checkpoint that says so first.
        self._cut: int | None = number if is_cut else None
        # The checkpoint that has everything, once it is there, and the rounds that follow it.
        self._whole: Cut | None = None
        self._last = _LastWords()
        # The newest checkpoint that all slots were told of, and that the running round tells.
        self._told = self._telling = number
        self._asking: int | None = None

    # --- what the loop asks -------------------------------------------------------------------

    def wake(self) -> int | None:
        """See ``Checkpoints``."""
        flight = self._flight
        if self._whole is not None:
            return self._last.wake
        if self._told < self.published:
            return BEGIN
        if flight is not None:
            pause = _POLL_PUBLISHING if flight.publishing else _POLL
            return flight.asked + pause if flight.begun else BEGIN
        return self._next() if self._dirty else None

    def _next(self) -> int:
        if self._finishing or self._urgent or self._began is None:
            return BEGIN
        return self._began + self._interval

    def orders(self, schedule: Schedule, play: int, now: int) -> Orders:
        """See ``Checkpoints``.

        Raises:
            CheckpointFailed: too often in a row.
        """
        self._look(now)
        if self._began is None:
            # The first one comes an interval after the job began, not with its first round.
            self._began = now
        self._dirty |= play != self._place
        self._place = play
        if self._flight is None and self._dirty and schedule.number and self._next() <= now:
            self._begin(schedule, play, now)
        every = frozenset(range(len(schedule.plan.levels)))
        levels = frozenset[int]()
        flight, self._asking = self._flight, None
        if flight is not None and not flight.begun:
            self._asking, levels = flight.cut.number, every
        elif flight is not None and flight.asked + _POLL <= now:
            flight.asked = now
            levels = frozenset(level for level, _ in flight.waiting)
        self._telling = self.published
        if self._told < self.published or self._whole is not None:
            levels = every
        return Orders(self._asking, self.published, levels, last=self._whole is not None)

    def _begin(self, schedule: Schedule, play: int, now: int) -> None:
        self._number += 1
        self._began = now
        self._dirty = self._urgent = False
        if self._drain is not None and self._cut is None:
            self._cut = self._number
        reports = {(report.level, report.slot): report for report in schedule.reports()}
        phase = Phase.PUBLISHING if self._finishing else Phase.GOING_ON
        cut = Cut(self._number, schedule.number, play, phase, self._drain, reports, {})
        self._flight = _Flight(cut, now, set(reports))

    def hurry(self) -> None:
        """See ``Checkpoints``."""
        if self._flight is None:
            self._urgent = self._dirty = True

    def cut(self, drain: bytes) -> None:
        """See ``Checkpoints``."""
        self._drain = drain
        if not self.is_cut:
            self._urgent = self._dirty = True

    @property
    def is_cut(self) -> bool:
        """See ``Checkpoints``."""
        return self._cut is not None and self._cut <= self.published

    def finish(self) -> None:
        """See ``Checkpoints``."""
        self._finishing = self._dirty = True

    # --- what the loop tells ------------------------------------------------------------------

    def committed(self, reports: Sequence[RoundReport], now: int) -> None:
        """See ``Checkpoints``.

        Raises:
            CheckpointFailed: too often in a row.
            NotAcknowledged: at the end, the outside could not be told.
        """
        self._told = self._telling
        if self._whole is not None:
            if self._last.committed(reports, now):
                self._conclude(self._whole, now)
            return
        changed = any(report.prepared_bytes or report.sent for report in reports)
        self._dirty |= changed and not self._finishing
        flight = self._flight
        if flight is None:
            return
        if self._asking is not None:
            flight.begun, flight.asked = True, now
        try:
            self._collect(flight, reports, now)
        except CheckpointFailed as error:
            self._failed(flight, error)
        self._look(now)

    def _look(self, now: int) -> None:
        """Find out whether the checkpoint on its way is published."""
        flight = self._flight
        if flight is None or not flight.publishing:
            return
        flight.asked = now
        try:
            if self._publication.is_published():
                self._flight = None
                match flight.cut.phase:
                    case Phase.GOING_ON:
                        self.published, self._failures = flight.cut.number, 0
                    case Phase.PUBLISHING:
                        # Failures go on to be counted: at the end, there may be no good ones more.
                        self.published, self._whole = flight.cut.number, flight.cut
                    case Phase.OVER:
                        pass  # there is nobody to be told
        except CheckpointFailed as error:
            self._failed(flight, error)

    def _collect(self, flight: _Flight, reports: Sequence[RoundReport], now: int) -> None:
        if flight.publishing:
            return
        for report in reports:
            uploaded = report.uploaded
            if uploaded is None or uploaded.number != flight.cut.number:
                continue
            if uploaded.error:
                message = f"slot {report.slot} of level {report.level}: {uploaded.error}"
                raise CheckpointFailed(message)
            flight.files[report.level, report.slot] = uploaded
            flight.waiting.discard((report.level, report.slot))
        if not flight.waiting:
            flight.publishing = True
            flight.cut = replace(flight.cut, files=flight.files)
            self._publication.publish(flight.cut)
        elif now - flight.since > max(_PATIENCE, _PATIENCE_INTERVALS * self._interval):
            message = f"{len(flight.waiting)} slots have not uploaded their state in time"
            raise CheckpointFailed(message)

    def _conclude(self, whole: Cut, now: int) -> None:
        self._number += 1
        self._whole = None
        over = replace(whole, number=self._number, phase=Phase.OVER)
        self._flight = _Flight(over, now, set(), begun=True, publishing=True)
        self._publication.publish(over)
        self._look(now)

    def _failed(self, flight: _Flight, error: CheckpointFailed) -> None:
        self._flight = None
        self._dirty = True
        if self._cut == flight.cut.number:
            self._cut, self._urgent = None, True
        self._failures += 1
        message = (
            f"checkpoint {flight.cut.number} failed, the {self._failures}. in a row of "
            f"{self._attempts} that may: {error}"
        )
        if self._failures >= self._attempts:
            message += f". {_REMEDY}"
            raise CheckpointFailed(message) from error
        _LOGGER.warning(message)
