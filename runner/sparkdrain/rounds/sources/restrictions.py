"""Splittable DoFns as sources: restrictions that wait in a slot, and go on round after round."""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from apache_beam.utils.timestamp import Timestamp
from typing_extensions import override

from sparkdrain.graph.plan import EdgeKind
from sparkdrain.graph.state_ids import edge_state_id, truncated_state_ids
from sparkdrain.rounds.sources.line import Arrivals, RestrictionLine
from sparkdrain.rounds.sources.residuals import MOST_IDLE, Residual, ResidualStore
from sparkdrain.stages.shards.input import Input, Inside
from sparkdrain.watermarks.frontier import BEGIN, END, least
from timers_state.keys import I64_MAX

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sparkdrain.graph.plan import Edge, TransformId
    from sparkdrain.harness.harness import Harness, Remainder
    from sparkdrain.rounds.context import Context
    from sparkdrain.stages.shards.input import Count
    from sparkdrain.stages.shards.source import Source
    from sparkdrain.stages.shards.turn import Budget, Turn

_LOGGER = logging.getLogger(__name__)
# The least part of a round's budget that one restriction gets, however many there are: to stop and
# to go on again costs something too.
_LEAST_SHARE: Final = 1 / 8
# How many times its part of a round a restriction may take before a warning.
_PATIENCE: Final = 20.0
# A restriction that is deferred while the job is drained waits at most so long; microseconds.
_MOST_DELAY_OF_DRAIN: Final = 100_000
_LEAST_PATIENCE: Final = 5.0


class RestrictionInput(Input):
    """Takes restrictions in, and processes them as far as the budget of each round goes.

    The restriction that has waited longest is first. All that are due are processed, each with a
    part of the budget. Restrictions that used up their part go on with what others have left. What
    is not done waits in the slot's state until it is due: in the next round, or after the delay
    that it asked for.

    When the job is drained, all that wait are truncated, each once, before any of them goes on; so
    is what still comes, as it comes. What is left waits elsewhere, so that it is known, and goes on
    to its end without long delays.

    Args:
        source: where new restrictions enter the stage.
        transform: the one that processes them, see ``processed_by``.
        peers: all inputs of the slot that share the budget, in the order of their turns.
    """

    reason = "source"

    def __init__(
        self,
        context: Context,
        edge: Edge,
        source: Source,
        transform: TransformId,
        peers: Callable[[], Sequence[RestrictionInput]],
    ) -> None:
        self._source = source
        self._transform = transform
        coding = context.codings.elements(edge)
        # What waits; what waits and was truncated; and apart from that, what came in elements that
        # are there because the job is drained.
        self._store, self._truncated, self._of_drain = (
            ResidualStore(context.overlay, id_, coding.windowed)
            for id_ in (edge_state_id(edge.id), *truncated_state_ids(edge.id))
        )
        # Only jobs that are drained have more than the first one.
        self._stores = [self._store]
        self._again: int | None = None
        self._peers = peers
        # How many parts of the budget to leave to what fires timers in the level.
        kinds = {other.kind for other in context.plan.edges_into(edge.consumer)}
        self._others = int(bool(kinds & {EdgeKind.GROUP, EdgeKind.KEYED}))
        self._arrivals = Arrivals(coding)
        self._work: Work | None = None

    def take(self, payload: memoryview) -> None:
        """Keep a block of new restrictions; they have their turn after those that wait already."""
        self._arrivals.add(payload)

    @override
    def process(self, turn: Turn) -> None:
        if turn.draining:
            self._stores = [self._store, self._truncated, self._of_drain]

    def is_due(self, turn: Turn) -> bool:
        """Whether there is a restriction to process."""
        if turn.held:
            return False
        if turn.draining and not turn.of_drain and len(self._store):
            return True
        wake = self._source_of(turn).wake()
        return bool(self._arrivals) or (wake is not None and wake <= turn.now)

    def _source_of(self, turn: Turn) -> ResidualStore:
        """Where restrictions are kept that are processed in this turn."""
        if not turn.draining:
            return self._store
        return self._of_drain if turn.of_drain else self._truncated

    def advance(self, turn: Turn) -> None:
        """Process what is due, and keep what is left."""
        if not self.is_due(turn):
            if self._arrivals:
                # Keep what has come, without a look at it.
                self._open()
                RestrictionLine(self._store, self._arrivals, turn.now).keep()
            return
        peers = self._peers()
        behind = peers[peers.index(self) + 1 :]
        sharing = 1 + sum(peer.is_due(turn) for peer in behind) + self._others
        work = self._open()
        budget = turn.budget.part(1 / sharing)
        if turn.draining:
            self._drain(turn, work, budget)
            return
        waiting = RestrictionLine(self._store, self._arrivals, turn.now)
        work.run(waiting, budget)
        waiting.keep()

    def _open(self) -> Work:
        harness = self._source.shard.open()
        if self._work is None:
            self._work = Work(harness, self._source.transform, self._transform)
        self._arrivals.by_window = self._work.by_window
        return self._work

    def _drain(self, turn: Turn, work: Work, budget: Budget) -> None:
        self._arrivals.truncate = work.truncate
        store = self._source_of(turn)
        waiting = RestrictionLine(store, self._arrivals, turn.now, _MOST_DELAY_OF_DRAIN)
        if turn.of_drain:
            work.run(waiting, budget)
        elif self._truncate(turn.now, work.truncate, budget):
            self._again = None
            work.run(waiting, budget)
        else:
            self._again = turn.now
        waiting.keep()

    def _truncate(
        self, now: int, truncate: Callable[[Residual], Residual | None], budget: Budget
    ) -> bool:
        """Truncate all that wait, as far as the budget goes; whether that was far enough."""
        while (residual := self._store.pop(I64_MAX)) is not None:
            truncated = truncate(residual)
            if truncated is not None:
                self._truncated.put(truncated, now)
            budget.spend(1)
            if budget.is_spent():
                break
        return not len(self._store)

    @property
    def untruncated(self) -> int:
        """How many restrictions wait that no drain has truncated."""
        return len(self._store)

    @override
    def inside(self, count: Count) -> Inside:
        return Inside(residuals=sum(map(len, self._stores)))

    @override
    def hold(self) -> int:
        return least(store.hold() for store in self._stores)

    @override
    def wake(self) -> int | None:
        wakes = [wake for store in self._stores if (wake := store.wake()) is not None]
        if self._again is not None:
            wakes.append(self._again)
        return min(wakes, default=None)


class Work:
    """Has a splittable DoFn process restrictions.

    Args:
        source: where restrictions enter the stage.
        transform: the DoFn's.
    """

    def __init__(self, harness: Harness, source: TransformId, transform: TransformId) -> None:
        self._harness = harness
        self._name = transform
        self._inlet = inlet = harness.restrictions(source, transform)
        self.by_window = inlet.by_window
        self._warned = False

    def truncate(self, residual: Residual) -> Residual | None:
        """What is to be processed of a restriction that was never truncated, if anything is."""
        left = self._inlet.truncate(residual.element)
        return None if left is None else replace(residual, element=left)

    def run(self, line: RestrictionLine, budget: Budget) -> None:
        """Process restrictions until none is left or ``budget`` is spent; at least one."""
        least = budget.seconds_left() * _LEAST_SHARE
        seconds = budget.seconds_left()
        patience = max(_LEAST_PATIENCE, _PATIENCE * seconds)
        inlet, harness = self._inlet, self._harness
        with Watch(
            inlet.step, seconds, patience, inlet.interrupt, lambda: harness.at_work()[0]
        ) as watch:
            while (residual := line.pop()) is not None:
                least_share = least / max(budget.seconds_left(), least, 1e-9)
                share = max(1 / (1 + len(line)), least_share)
                watch.begin()
                allowance = budget.part(share).allowance()
                done = inlet.process(residual.element, allowance, started=residual.started)
                budget.spend(done.claimed)
                watch.end()
                # One claim may have been for nothing: some readers claim before they look.
                is_idle = done.claimed <= 1 and not done.made
                idle = min(residual.idle + 1, MOST_IDLE) if is_idle else 0
                for rest in done.interrupted:
                    line.interrupted(self._rest(residual, rest))
                for rest in done.deferred:
                    line.deferred(replace(self._rest(residual, rest), idle=idle), rest.delay)
                if budget.is_spent():
                    return

    def _rest(self, before: Residual, rest: Remainder) -> Residual:
        """What remains of a restriction after it was processed for a while."""
        if rest.watermark is None:
            return Residual(rest.element, before.hold, before.known, started=True)
        hold = min(max(rest.watermark, BEGIN), END)
        if before.known and hold < before.hold:
            if not self._warned:
                self._warned = True
                _LOGGER.warning(
                    "%s: the watermark of a restriction went back from %s to %s; it is held at "
                    "what it was. A watermark estimator must never take back what it said.",
                    self._name,
                    Timestamp(micros=before.hold),
                    Timestamp(micros=rest.watermark),
                )
            hold = before.hold
        return Residual(rest.element, hold, known=True, started=True)


class Watch:
    """Interrupts a restriction that takes too long, from a thread, and warns if that does not help.

    A DoFn that claims nothing cannot be interrupted; the warning names it.

    Args:
        seconds: how long one may take before it is interrupted.
        patience: seconds after which a warning is logged, and again each time that it has taken
            twice as long.
        interrupt: see ``RestrictionInlet.interrupt``.
        at_work: the step whose code runs, which may be one behind the transform.
    """

    def __init__(
        self,
        name: str,
        seconds: float,
        patience: float,
        interrupt: Callable[[], bool],
        at_work: Callable[[], str] = str,
    ) -> None:
        self._at_work = at_work
        self._name = name
        self._seconds = max(seconds, 0.005)
        self._patience = patience
        self._interrupt = interrupt
        self._over = threading.Event()
        self._began: float | None = None
        self._warn_at = patience
        self._thread: threading.Thread | None = None

    def begin(self) -> None:
        """A restriction begins to be processed."""
        self._warn_at = self._patience
        self._began = time.monotonic()
        if self._thread is None:
            thread = threading.Thread(target=self._look, name="restrictions", daemon=True)
            thread.start()
            self._thread = thread

    def end(self) -> None:
        """Take that the restriction has come back."""
        self._began = None

    def _look(self) -> None:
        while not self._over.wait(self._seconds):
            began = self._began
            if began is None:
                continue
            taken = time.monotonic() - began
            if taken >= self._warn_at:
                self._warn_at *= 2
                _LOGGER.warning(
                    "%s has been processing one restriction for %.1f seconds, and the step at "
                    "work is %r. If that is the same step, it claims nothing, or what it reads "
                    "cannot be split: call tracker.try_claim more often, or "
                    "tracker.defer_remainder. The round, and everything that waits for its end, "
                    "lasts as long.",
                    self._name,
                    taken,
                    self._at_work() or self._name,
                )
            if taken >= self._seconds:
                self._interrupt()

    def __enter__(self) -> Watch:
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()
        if self._thread is not None:
            self._thread.join()
