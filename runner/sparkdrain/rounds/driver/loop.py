"""The driver of a streaming job: round after round, until nothing is left."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, Protocol

from sparkdrain.drain.phases import INSTRUCTIONS, DrainEvent, DrainPhase, drain_walk
from sparkdrain.errors import Cancelled, DrainStuck, TruncatedInput
from sparkdrain.rounds.driver.checkpoints import NoCheckpoints
from sparkdrain.rounds.driver.drain_watch import DrainWatch, attention
from sparkdrain.rounds.driver.inheritances import inheritances, shards_of
from sparkdrain.rounds.driver.tell import shown
from sparkdrain.shuffle.complete import agree

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from sparkdrain.drain.phases import Instruction
    from sparkdrain.machine import Walk
    from sparkdrain.rounds.clock import Clock
    from sparkdrain.rounds.driver.checkpoints import Checkpoints
    from sparkdrain.rounds.driver.moves import SlotMoves
    from sparkdrain.rounds.driver.pace import Pace
    from sparkdrain.rounds.driver.schedule import Schedule
    from sparkdrain.rounds.messages import (
        DrainOrder,
        Missing,
        Orders,
        RoundHeader,
        RoundReport,
    )
    from sparkdrain.stages.shards.turn import Feed
    from sparkdrain.types import CancelToken


_LOGGER = logging.getLogger(__name__)
# Missing drain messages that a warning names.
_SHOWN: Final = 5
# How long a job stands still for a checkpoint before it goes on, and tries again later.
_STILL_SECONDS: Final = 30.0


class Levels(Protocol):
    """Runs levels in all slots; what one level sends, later ones of the same round receive.

    A host that was lost ends the loop while the loop waits. A round finds the loss by itself.
    """

    def run(self, headers: Sequence[RoundHeader]) -> list[RoundReport]:
        """Run one level in every slot; one report for each, in any order."""

    def end_round(self) -> None:
        """Let go of this round: nothing of it is needed any more."""

    def check_hosts(self) -> None:
        """Return if no host was lost, that is, no process that holds the state of slots.

        Raises:
            WorkerLost: one was.
        """

    def on_loss(self, tell: Callable[[], object]) -> None:
        """Call ``tell``, from some thread, when a host is lost."""


class Play:
    """The sources that the driver plays itself. As it is here, the job has none of them."""

    def next(self, *, quiet: bool) -> Mapping[str, Feed]:
        """What is new from them in the next round.

        The same again until that round was committed.

        Args:
            quiet: nothing else is due, everything that was given before has been worked off.
        """
        return {}

    def standing(self) -> Mapping[str, Feed]:
        """All of them, without elements, at the frontier that was committed."""
        return {}

    def committed(self) -> None:
        """The round with what ``next`` gave was committed."""

    def cut(self) -> None:
        """Give nothing more but the end of time, with the next call."""

    @property
    def position(self) -> int:
        """How much they have given in rounds that were committed."""
        return 0

    def go_to(self, position: int) -> None:
        """Go on from such a position, in another process than the one that was there."""

    @property
    def is_over(self) -> bool:
        """Whether they have given everything."""
        return True


@dataclass(slots=True)
class RoundLoop:
    """Runs rounds while something is due, and waits while nothing is.

    Attributes:
        attempts: how often a round is run before the job fails.
        tell: hears of every committed round.
        stopwatch: seconds that pass, as rounds take them.
        before_round: called before each attempt of a round; what it raises ends the loop.
        phases: how far the job is; what rounds do follows from it.
        moves: says when slots are to be elsewhere; None: they stay where they are.
    """

    schedule: Schedule
    levels: Levels
    clock: Clock
    pace: Pace
    play: Play
    cancel: CancelToken
    attempts: int
    tell: Callable[[Schedule, list[RoundReport]], None]
    checkpoints: Checkpoints = field(default_factory=NoCheckpoints)
    drain: DrainWatch = field(default_factory=DrainWatch)
    stopwatch: Callable[[], float] = time.monotonic
    before_round: Callable[[], None] = lambda: None
    phases: Walk[DrainPhase, DrainEvent] = field(default_factory=drain_walk)
    moves: SlotMoves | None = None
    _is_waiting: bool = field(default=False, init=False)
    # The round after which slots were to move.
    _to_move: int | None = field(default=None, init=False)
    _strangers: int = field(default=0, init=False)

    def run(self) -> None:
        """Run until nothing is left to do.

        Raises:
            Cancelled: ``cancel`` was called.
            Fenced: the job is another driver's now.
            WorkerLost: a host was lost.
            SparkDrainError: a round failed for good.
            DrainStuck: something is left that a drain cannot get out.
        """
        wanted = attention(self.cancel, self.drain.signal)
        self.levels.on_loss(wanted.set)
        self._enter(DrainPhase.READING)
        self._follow()
        while not self._instruction.ends:
            if self._can_move():
                self._move()
            wake = self.schedule.wake()
            quiet = wake is None or wake > self.clock.now()
            feeds = {} if self._instruction.holds else self.play.next(quiet=quiet)
            if quiet and not feeds and not self._is_new_order() and not self.drain.is_asked():
                waits = self.schedule.waits()
                if wake is None and waits:
                    self.checkpoints.hurry()
                elif wake is None and self._instruction.drains:
                    self._await_messages()
                wait = _earliest(wake, self.checkpoints.wake())
                self.clock.wait_until(wait, wanted)
                wanted.clear()
                self.levels.check_hosts()
                self._follow()
            self._round(feeds)
            self._follow()
        while (wake := self.checkpoints.wake()) is not None:
            self.clock.wait_until(wake, self.cancel)
            self._round({})
        self.phases.take(DrainEvent.OUTSIDE_KNOWS)
        self.drain.over(self.phases.state, self.clock.now())

    @property
    def _instruction(self) -> Instruction:
        return INSTRUCTIONS[self.phases.state]

    def _follow(self) -> None:
        """Find out what has happened, and enter the phases that follow from it."""
        before = self.phases.state
        if self.phases.follow(self._has_happened) is not before:
            self._enter(before)

    def _enter(self, before: DrainPhase) -> None:
        """Do what the way from a phase to the present one demands."""
        phase = self.phases.state
        if phase is before:
            return
        self.checkpoints.enter(phase, self.drain.signal.requested())
        if self._instruction.drains and not INSTRUCTIONS[before].drains:
            self.play.cut()
        self.drain.entered(phase, self.clock.now())

    def _has_happened(self, event: DrainEvent) -> bool:
        match event:
            case DrainEvent.REQUESTED:
                return self.drain.signal.requested() is not None
            case DrainEvent.CUT_IS_DURABLE:
                # Before any slot hears of the drain, it is to be durable where sources were cut:
                # a driver that takes the job up again must not read on from there.
                return not self.schedule.number or self.checkpoints.has_cut
            case DrainEvent.RESTRICTIONS_ARE_TRUNCATED:
                return self.schedule.is_truncated()
            case DrainEvent.STAGES_ARE_DRAINED:
                return self._is_idle() and self.schedule.is_drained()
            case DrainEvent.INPUT_HAS_ENDED:
                return self._is_idle()
            case DrainEvent.OUTSIDE_KNOWS:
                return False  # the end of the loop says so

    def _is_idle(self) -> bool:
        return self.schedule.is_over() and self.play.is_over

    def _await_messages(self) -> None:
        """Nothing is due, and the job is not drained: drain messages are missing, or it is stuck.

        A job that waits for drain messages stays ``DRAINING``: that all is at the end of time does
        not show that every producer of this run has sent all of its elements.
        """
        missing = self.schedule.missing()
        if not missing:
            raise DrainStuck(_stuck(self.schedule))
        if not self._is_waiting:
            _LOGGER.warning(_waiting(missing))
        self._is_waiting = True

    def _can_move(self) -> bool:
        """Whether slots are to move, and a checkpoint made since makes the next one a small one.

        That one begins at once: the job does not stand still for another that is on its way.
        """
        reading = self.phases.state is DrainPhase.READING
        moves = self.moves
        if moves is None or not reading or not moves.are_wanted() or self.checkpoints.failures:
            self._to_move = None
            return False
        if self._to_move is None:
            self._to_move = self.schedule.number
        newest = self.checkpoints.newest
        if newest is not None and self._has(self._to_move):
            return moves.are_ready(newest.number) and self.checkpoints.rest()
        self.checkpoints.hurry()
        return False

    def _has(self, number: int) -> bool:
        """Whether a checkpoint is published that covers all up to a round."""
        newest = self.checkpoints.newest
        return newest is not None and newest.round >= number

    def _move(self) -> None:
        """Have slots opened anew elsewhere, with all standing still from the last round on."""
        before, began = self.schedule.number, self.stopwatch()
        self._to_move = None
        while not self._has(before):
            if self.checkpoints.failures or self.stopwatch() - began > _STILL_SECONDS:
                return
            self.checkpoints.hurry()
            self.clock.wait_until(self.checkpoints.wake(), self.cancel)
            self._round({}, still=True)
        newest = self.checkpoints.newest
        assert newest is not None
        assert self.moves is not None
        slots = self.moves.begin(self.schedule.number + 1)
        if slots:
            count = self.schedule.slots
            all_of_them = inheritances(shards_of(newest), count, count)
            self.schedule.move({at: own for at, own in all_of_them.items() if at[1] in slots})
            self._round({}, everywhere=True)
            self.moves.over(self.stopwatch() - began)

    def _is_new_order(self) -> bool:
        return self._instruction.drains and not self.schedule.knows_of_drain()

    def _round(
        self, feeds: Mapping[str, Feed], *, still: bool = False, everywhere: bool = False
    ) -> None:
        """Run a round until an attempt succeeds, and commit it.

        Args:
            feeds: what the driver gives to sources.
            still: slots do nothing but what checkpoints need.
            everywhere: all levels run, also those that have nothing to do.
        """
        orders = self.checkpoints.orders(self.schedule, self.play.position, self.clock.now())
        survey = self.drain.wants(self.clock.now())
        order = self.drain.order() if self._instruction.drains else None
        orders = replace(
            orders, held=self._instruction.holds, drain=order, survey=survey, still=still
        )
        if everywhere:
            orders = replace(orders, levels=frozenset(range(len(self.schedule.plan.levels))))
        for attempt in range(1, self.attempts + 1):
            if self.cancel.is_cancelled():
                message = "the job was cancelled"
                raise Cancelled(message)
            self.before_round()
            started = self.stopwatch()
            try:
                reports = self._try(feeds, orders)
            except TruncatedInput:
                if attempt == self.attempts:
                    raise
                continue
            finally:
                self.levels.end_round()
            self.schedule.commit(reports)
            self._tell_strangers(order)
            self.play.committed()
            self.checkpoints.committed(reports, self.clock.now())
            wake = self.schedule.wake()
            behind = wake is not None and wake <= self.clock.now()
            if reports and not still:
                seconds, draining = self.stopwatch() - started, order is not None
                self.pace.took(seconds, reports, behind=behind, draining=draining)
            self.tell(self.schedule, reports)
            self.drain.committed(self.schedule, self.clock.now())
            return

    def _tell_strangers(self, order: DrainOrder | None) -> None:
        new = self.schedule.strangers - self._strangers
        self._strangers = self.schedule.strangers
        if new:
            _LOGGER.warning(
                "Round %d dropped %d drain messages of another run than %r. They do not count; "
                "the drain goes on waiting for those of its own run.",
                self.schedule.number,
                new,
                None if order is None else order.run_id,
            )

    def _try(self, feeds: Mapping[str, Feed], orders: Orders) -> list[RoundReport]:
        """One attempt: all levels that are due; commits nothing."""
        schedule, now = self.schedule, self.clock.now()
        given = {**self.play.standing(), **feeds}
        ran: dict[int, list[RoundReport]] = {}
        seen: list[dict[tuple[int, int], int]] = []
        for level in range(len(schedule.plan.levels)):
            if not schedule.is_due(level, now, ran, feeds, orders):
                continue
            headers = [
                schedule.header(
                    level, slot, now, ran, self.pace.seconds, self.pace.elements, given, orders
                )
                for slot in range(schedule.slots)
            ]
            reports = ran[level] = self.levels.run(headers)
            seen += [report.inputs for report in reports]
            seen.append({(report.level, report.slot): report.attempt for report in reports})
            # What was reported is what later levels must have read.
            agree(seen)
        return [report for reports in ran.values() for report in reports]


def _earliest(*times: int | None) -> int | None:
    return min((time for time in times if time is not None), default=None)


def _waiting(missing: Sequence[Missing]) -> str:
    shown = "; ".join(
        f"{each.stage!r} waits for {each.producers} producers of edge {each.edge}"
        for each in missing[:_SHOWN]
    )
    more = f"; and {len(missing) - _SHOWN} more" if len(missing) > _SHOWN else ""
    return (
        "The drain has nothing more to do, but drain messages are missing, so the job stays "
        f"DRAINING: {shown}{more}. If they do not come, cancel the job and start it with --resume: "
        "then every producer tells again that it is drained."
    )


def _stuck(schedule: Schedule) -> str:
    holds = "; ".join(
        f"{hold.stage!r} by {hold.reason} at {shown(hold.time)}" for hold in schedule.holds()
    )
    stages = ", ".join(map(repr, schedule.undrained())) or "none"
    return (
        f"The job is drained, and nothing is left that could happen, but it has not ended. Stages "
        f"that are not drained: {stages}. What holds time back: {holds or 'nothing'}."
    )
