"""When a job's state is made durable, and what rounds have to do for it.

One checkpoint at a time. It covers the rounds that were committed when it was begun: the next round
tells all slots to keep that version of their state, and to upload it while rounds go on. When the
last slot has said that its part is there, the checkpoint is published, while rounds go on too. From
then on it is what a recovery goes back to, and what it covers counts as done to the outside.

A job ends with two checkpoints. The first one has everything, and says that only the outside is
still to be told. Bundle finalizers then tell the outside, and the driver waits for them. After that
the second one, of the same state, says that the job is over. So a driver that goes on from the
first one tells the outside again.

A life that goes on from a checkpoint has kept readers of exactly-once sinks waiting. So its first
checkpoint does not wait for the interval. It begins as soon as output waits for it. Slots give
their uploads a moment before they report, and are asked for them in each round. The driver gives
the publication a moment before the next round.

All states, and the steps between them, are in ``checkpoint_flight``.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Final, Protocol

from typing_extensions import override

from sparkdrain.drain import phases
from sparkdrain.drain.phases import INSTRUCTIONS, DrainEvent, DrainPhase
from sparkdrain.english import ordinal
from sparkdrain.errors import CheckpointFailed
from sparkdrain.machine import Walk
from sparkdrain.rounds.driver.checkpoint_flight import STEPS, Cut, Flight, FlightEvent, FlightState
from sparkdrain.rounds.driver.checkpoints import Checkpoints, LastRounds
from sparkdrain.rounds.messages import Orders
from sparkdrain.watermarks.frontier import BEGIN

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sparkdrain.drain.notification import DrainNotification
    from sparkdrain.rounds.driver.schedule import Schedule
    from sparkdrain.rounds.messages import RoundReport

_LOGGER = logging.getLogger(__name__)
_REMEDY: Final = (
    "Nothing is lost: once there is room and a way to write in --checkpoint_dir, and on the disks "
    "that hold state (spark.local.dir), the job goes on from the checkpoint before with --resume."
)
# How soon a job that has nothing else to do looks again how far a checkpoint is; microseconds.
_POLL: Final = {
    FlightState.UPLOADING: 100_000,
    FlightState.PUBLISHING: 10_000,
    FlightState.CLOSING: 10_000,
}
_POLL_AWAITED: Final = 10_000


class Publication(Protocol):
    """Makes complete checkpoints the newest ones, one at a time."""

    def publish(self, cut: Cut) -> None:
        """Begin to; does not wait."""

    def is_published(self) -> bool:
        """Whether the last one is.

        Raises:
            CheckpointFailed: it could not be; also ``Fenced``.
        """


class Checkpointing(Checkpoints):
    """Checkpoints in intervals; see ``Checkpoints``. Does no I/O but through ``publication``.

    Attributes:
        published: the number of the newest checkpoint that is published; 0 if none is.

    Args:
        interval: between the beginnings of two checkpoints, microseconds.
        publication: makes a complete checkpoint the newest one.
        attempts: how many checkpoints may fail in a row before the job does.
        number: the last checkpoint that was published, 0 if none was.
        phase: what that one says of the job.
    """

    def __init__(
        self,
        interval: int,
        publication: Publication,
        attempts: int = 3,
        *,
        number: int = 0,
        phase: DrainPhase = DrainPhase.READING,
    ) -> None:
        self._interval = interval
        self._publication = publication
        self._attempts = attempts
        self._walk = Walk("The checkpoint on its way", STEPS, FlightState.IDLE)
        self._flight: Flight | None = None
        self.has_cut = phase.is_cut
        self.newest: Cut | None = None
        self._last = LastRounds()
        self._number = self.published = number
        self.failures = 0
        self._began: int | None = None
        # When the next checkpoint is to be begun; None: nothing has happened that it would cover.
        self._due: int | None = None
        # Whether the job waits for the next checkpoint, and whether output is enough to do so.
        self._is_awaited = False
        self._goes_on = number > 0
        self._rests = False
        self._place = 0
        # How far the job is, and who asked for its drain.
        self._phase = DrainPhase.READING
        self._request: DrainNotification | None = None
        # What the running round is told, and the newest checkpoint that all slots were told of.
        self._orders = Orders(published=number)
        self._told = number

    # --- what the loop asks -------------------------------------------------------------------

    @override
    def enter(self, phase: DrainPhase, request: DrainNotification | None = None) -> None:
        self._phase, self._request = phase, request
        if self._is_urgent():
            self._due = BEGIN

    def _is_urgent(self) -> bool:
        return self._ends(self._phase) or (self._phase.is_cut and not self.has_cut)

    @staticmethod
    def _ends(phase: DrainPhase) -> bool:
        return phase in INSTRUCTIONS and INSTRUCTIONS[phase].ends

    @override
    def wake(self) -> int | None:
        state = self._walk.state
        if state is FlightState.TELLING:
            return self._last.wake
        if self._told < self.published or state is FlightState.ORDERED:
            return BEGIN
        flight = self._flight
        if flight is None:
            return self._due
        poll = _POLL[state]
        return flight.asked + (min(poll, _POLL_AWAITED) if flight.cut.is_awaited else poll)

    def orders(self, schedule: Schedule, play: int, now: int) -> Orders:
        """See ``Checkpoints``.

        Raises:
            CheckpointFailed: too often in a row.
        """
        self._look(now)
        if self._began is None:
            # The first one comes an interval after the job began, not with its first round.
            self._began = now
        if play != self._place:
            self._place = play
            self._changed()
        state = self._walk.state
        if (
            state is FlightState.IDLE
            and not self._rests
            and self._due is not None
            and self._due <= now
            and schedule.number
        ):
            state = self._begin(schedule, now)
        self._rests = False
        self._orders = Orders(
            self._number if state is FlightState.ORDERED else None,
            self.published,
            self._levels(state, schedule, now),
            last=state is FlightState.TELLING,
            awaited=self._flight is not None and self._flight.cut.is_awaited,
        )
        return self._orders

    def _levels(self, state: FlightState, schedule: Schedule, now: int) -> frozenset[int]:
        """The levels that have to run for the sake of checkpoints."""
        everywhere = (FlightState.ORDERED, FlightState.TELLING)
        if self._told < self.published or state in everywhere:
            return frozenset(range(len(schedule.plan.levels)))
        flight = self._flight
        if flight is None or state is not FlightState.UPLOADING:
            return frozenset()
        if not flight.cut.is_awaited and flight.asked + _POLL[state] > now:
            return frozenset()
        flight.asked = now
        return frozenset(level for level, _ in flight.waiting)

    def _changed(self) -> None:
        """Take that something has happened that no checkpoint covers, on its way or there."""
        if self._due is None:
            self._due = BEGIN if self._began is None else self._began + self._interval

    def _begin(self, schedule: Schedule, now: int) -> FlightState:
        self._number += 1
        self._began, self._due = now, None
        reports = {(report.level, report.slot): report for report in schedule.reports()}
        drain = self._request if self._phase.is_cut else None
        cut = Cut(
            self._number,
            schedule.number,
            self._place,
            self._phase,
            drain,
            reports,
            {},
            is_awaited=self._is_awaited,
        )
        self._is_awaited = self._goes_on = False
        self._flight = Flight(cut, now)
        return self._walk.take(FlightEvent.BEGUN)

    @override
    def hurry(self) -> None:
        if self._walk.state is FlightState.IDLE:
            self._due, self._is_awaited = BEGIN, True

    @override
    def rest(self) -> bool:
        self._rests = self._walk.state is not FlightState.IDLE
        return not self._rests

    # --- what the loop tells ------------------------------------------------------------------

    def committed(self, reports: Sequence[RoundReport], now: int) -> None:
        """See ``Checkpoints``.

        Raises:
            CheckpointFailed: too often in a row.
            NotAcknowledged: at the end, the outside could not be told.
        """
        self._told = self._orders.published
        changed = any(report.prepared_bytes or report.sent for report in reports)
        if changed and not self._ends(self._phase):
            self._changed()
        if self._goes_on and any(report.waits for report in reports):
            self.hurry()
        flight = self._flight
        if flight is None:
            return
        match self._walk.state:
            case FlightState.TELLING:
                if self._last.committed(reports, now):
                    self._close(flight, now)
            case FlightState.ORDERED:
                flight.asked = now
                self._walk.take(FlightEvent.ORDER_COMMITTED)
                self._collect(flight, reports, now)
            case FlightState.UPLOADING:
                self._collect(flight, reports, now)
        self._look(now)

    def _collect(self, flight: Flight, reports: Sequence[RoundReport], now: int) -> None:
        try:
            if flight.collect(reports, now, self._interval):
                self._walk.take(FlightEvent.ALL_UPLOADED)
                self._publication.publish(flight.cut)
        except CheckpointFailed as error:
            self._failed(flight, error)

    def _close(self, whole: Flight, now: int) -> None:
        self._number += 1
        phase = phases.STEPS[whole.cut.phase, DrainEvent.OUTSIDE_KNOWS]
        self._flight = Flight(replace(whole.cut, number=self._number, phase=phase), now)
        self._walk.take(FlightEvent.OUTSIDE_TOLD)
        self._publication.publish(self._flight.cut)

    def _look(self, now: int) -> None:
        """Find out whether the checkpoint on its way is published."""
        flight, state = self._flight, self._walk.state
        if flight is None or state not in (FlightState.PUBLISHING, FlightState.CLOSING):
            return
        flight.asked = now
        try:
            if self._publication.is_published():
                self._arrived(flight)
        except CheckpointFailed as error:
            self._failed(flight, error)

    def _arrived(self, flight: Flight) -> None:
        self.has_cut = flight.cut.phase.is_cut
        if flight.cut.phase.is_over:
            self._walk.take(FlightEvent.PUBLISHED)
            self._flight = None  # no slot has to hear of it
            return
        self.published, self.newest = flight.cut.number, flight.cut
        if self._ends(flight.cut.phase):
            # Failures go on to be counted: at the end, there may be no good ones more.
            self._walk.take(FlightEvent.ALL_PUBLISHED)
        else:
            self._walk.take(FlightEvent.PUBLISHED)
            self._flight, self.failures = None, 0

    def _failed(self, flight: Flight, error: CheckpointFailed) -> None:
        self._walk.take(FlightEvent.FAILED)
        self._flight = None
        self._changed()
        if self._is_urgent():
            self._due = BEGIN
        self.failures += 1
        message = (
            f"checkpoint {flight.cut.number} failed ({ordinal(self.failures)} failure in a row; "
            f"the job fails after {self._attempts}): {error}"
        )
        if self.failures >= self._attempts:
            message += f". {_REMEDY}"
            raise CheckpointFailed(message) from error
        _LOGGER.warning(message)
