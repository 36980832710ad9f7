"""The keys of one step that are in flight: turns side by side, in the slot's thread.

Invariants. A key does one thing after the other: an element, or a timer, is complete before the
next one starts. Elements of a key start in arrival order. At most ``max_in_flight`` keys have
their turns at a time. After an error nothing starts. Turns that may outlast their round leave one
worker to those for which the round waits.
"""

from __future__ import annotations

import asyncio
from collections import deque
from types import AsyncGeneratorType, CoroutineType
from typing import TYPE_CHECKING, Any, Final

from sparkdrain.harness.concurrent.flight import collected
from sparkdrain.harness.concurrent.limit import TimeLimit
from sparkdrain.harness.concurrent.loop import cancel_all
from sparkdrain.harness.concurrent.room import WAITING
from sparkdrain.harness.concurrent.standing import line_of, standing
from sparkdrain.harness.concurrent.tracker import STEP
from sparkdrain.harness.keyed.worker import ElementsTurn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from sparkdrain.concurrency.settings import Concurrency
    from sparkdrain.harness.concurrent.loop import SlotLoop
    from sparkdrain.harness.concurrent.tracker import StepMetrics
    from sparkdrain.harness.keyed.worker import KeyTurn, KeyWorker
    from sparkdrain.harness.step_book import Frame

# A worker whose elements never wait lets others go on after so many.
_IN_A_ROW: Final = 64
# So many elements may be complete before the slot's thread lets their results leave, and so long.
_MOST_COMPLETE: Final = 1024
_SOON_SECONDS: Final = 0.01
_LOOK_SECONDS: Final = 1.0


class KeysInFlight:
    """Has workers take the turns of keys.

    A worker takes turns as long as there are any, so a key costs no task. Another worker begins
    when one waits for something.

    Args:
        settings: how many keys are in flight, and for how long an element may be.
        loop: runs in the slot's thread.
    """

    def __init__(
        self,
        name: str,
        settings: Concurrency,
        loop: SlotLoop,
        metrics: StepMetrics,
        new_worker: Callable[[], KeyWorker],
    ) -> None:
        self._name = name
        self._most = settings.max_in_flight
        self.most_inside = self._most + WAITING
        """About how many elements may be inside whose turns may outlast their round."""
        self._loop = loop
        self._metrics = metrics
        self._new_worker = new_worker
        self.turns: dict[bytes, KeyTurn] = {}
        """The turns that are not over, by key."""
        self._queue: deque[KeyTurn] = deque()
        # Turns that may outlast their round: those that have not begun; how many have a worker, and
        # how many are among ``turns``.
        self._lasting_queue: deque[KeyTurn] = deque()
        self._most_lasting = self._most - 1
        self._lasting_workers = 0
        self._lasting = 0
        self._more: Callable[[], KeyTurn | None] | None = None
        self._is_dry = True
        self._complete: list[tuple[Any, Any]] = []
        self._soon: asyncio.TimerHandle | None = None
        self._error: BaseException | None = None
        self._is_halted = False
        self._running: dict[KeyWorker, None] = {}
        self._workers: dict[asyncio.Task[None], KeyWorker] = {}
        self._idle: list[KeyWorker] = []
        # Whether a turn that has not begun was there when the loop was entered.
        self._begins = False
        self._yielding = 0
        self._burst = 1
        self._is_awake = False
        self._limit: TimeLimit | None = None
        if settings.timeout is not None:
            self._limit = TimeLimit(settings.timeout, loop.loop, loop.time, self._stuck)

    # --- outside of the loop ------------------------------------------------------------------

    def add(
        self, encoded: bytes, decode_key: Callable[[bytes], Any], lists: Iterable[list[Any]]
    ) -> ElementsTurn:
        """Hand elements of a key over, as windowed values without it; returns their turn."""
        turn = self.turns.get(encoded)
        if turn is None:
            turn = self.turns[encoded] = ElementsTurn(encoded, decode_key(encoded))
            self._queue.append(turn)
        assert isinstance(turn, ElementsTurn)
        turn.add(lists)
        return turn

    def begin(self, turn: KeyTurn) -> None:
        """Have a turn begin that may outlast its round; its key has none."""
        self.turns[turn.encoded] = turn
        self._lasting_queue.append(turn)
        self._lasting += 1

    @property
    def is_full(self) -> bool:
        """Whether the caller has to ``run`` before it adds another key."""
        return len(self._queue) + len(self._lasting_queue) >= WAITING

    @property
    def are_any(self) -> bool:
        """Whether a turn is not over, or its results were not taken, or there may be more.

        Turns that may outlast their round do not count.
        """
        return len(self.turns) > self._lasting or bool(self._complete) or not self._is_dry

    @property
    def are_lasting(self) -> bool:
        """Whether a turn is not over that may outlast its round."""
        return self._lasting > 0

    @property
    def are_waiting(self) -> bool:
        """Whether such a turn has not begun."""
        return bool(self._lasting_queue)

    def draw(self, more: Callable[[], KeyTurn | None] | None) -> None:
        """Take turns from ``more``, whenever a worker has nothing to do; None: not anymore.

        Args:
            more: a turn that may begin now, of a key that has none; or None.
        """
        self._more, self._is_dry = more, more is None

    def run(self, seconds: float = _LOOK_SECONDS) -> list[tuple[Any, Any]]:
        """Let turns go on until something is complete, or all have begun that had not.

        The caller sleeps meanwhile.

        Args:
            seconds: at most so long, and no longer than one second.

        Returns:
            Contexts and results of elements and timers that are complete.

        Raises:
            BaseException: one has failed.
        """
        if self._error is None and not self._complete:  # another step may have run the loop
            self._begins = self._is_more()
            self._wake()
            self._stop_soon(None)
            self._loop.run(min(seconds, _LOOK_SECONDS))
        self._stop_soon(None)
        if self._error is not None:
            raise self._error
        return self.take_complete()

    def take_complete(self) -> list[tuple[Any, Any]]:
        """Contexts and results of what is complete, and was not taken."""
        complete, self._complete = self._complete, []
        return complete

    def abandon(self) -> None:
        """Cancel all that is in flight, and wait for that for 2 s; name what goes on.

        State and timers cannot be used from now on: what a round has changed may be undone.
        """
        self._is_halted = True
        self._queue.clear()
        self._lasting_queue.clear()
        for worker in self._workers.values():
            worker.give_up()
        if self._workers:
            self._loop.wait(cancel_all(self._workers, self.described))

    # --- from any thread ----------------------------------------------------------------------

    def standing(self) -> Sequence[Frame]:
        """Where the code stands that has been in flight longest."""
        oldest = self._oldest()
        return () if oldest is None else standing(oldest, oldest.made)

    def key_at_work(self) -> bytes | None:
        """The encoded key of the element that has been in flight longest."""
        oldest = self._oldest()
        turn = None if oldest is None else oldest.turn
        return None if turn is None else turn.encoded

    def described(self) -> str:
        """How many keys are in flight, and where the oldest element stands."""
        count = len(self._running)
        return f"{self._name!r}: {count} in flight, the oldest at {line_of(self.standing())}"

    def _oldest(self) -> KeyWorker | None:
        return next(iter(self._running.copy()), None)

    # --- in the loop --------------------------------------------------------------------------

    def _wake(self) -> None:
        if not self._is_awake:
            self._is_awake = True
            self._loop.loop.call_soon(self._pump)

    def _pump(self) -> None:
        """Start workers, each time twice as many, unless one that has not to wait goes on."""
        is_more = self._is_more()
        room = self._most - len(self._workers)
        if self._is_halted or not is_more or room <= 0:
            self._burst, self._is_awake = 1, False
            if not is_more and self._begins:
                self._loop.stop()
            return
        if not self._yielding:
            waiting = len(self._queue) + self._lasting_ready()
            for _ in range(min(room, self._burst, waiting or self._burst)):
                worker = self._idle.pop() if self._idle else self._new_worker()
                worker.task = self._loop.loop.create_task(self._work(worker))
                self._workers[worker.task] = worker
            self._burst *= 2
        self._loop.loop.call_soon(self._pump)

    def _next(self) -> KeyTurn | None:
        """The turn that begins now, if one may."""
        if self._is_halted:
            return None
        if self._queue:
            return self._queue.popleft()
        if self._more is not None and not self._is_dry:
            turn = self._more()
            if turn is not None:
                self.turns[turn.encoded] = turn
                self._wake()
                return turn
            self._is_dry = True
        if self._lasting_ready():
            self._lasting_workers += 1
            return self._lasting_queue.popleft()
        return None

    def _is_more(self) -> bool:
        """Whether a turn may begin now."""
        return bool(self._queue) or not self._is_dry or self._lasting_ready() > 0

    def _lasting_ready(self) -> int:
        """How many turns may begin now that may outlast their round."""
        return min(len(self._lasting_queue), self._most_lasting - self._lasting_workers)

    async def _work(self, worker: KeyWorker) -> None:
        STEP.set(self._metrics)
        task = worker.task
        assert task is not None
        try:
            await self._take_turns(worker)
        except BaseException as error:  # noqa: BLE001 - raised in the slot's thread
            failure = error if self._limit is None else self._limit.failure(worker, error)
            if worker.turn is not None and worker.turn.encoded in self.turns:
                worker.turn.tell(failure, getattr(worker.place, "window", None))
            self._stop(failure)
        else:
            self._idle.append(worker)
        finally:
            self._running.pop(worker, None)
            del self._workers[task]
            self._loop.stop()

    # One function, since an element that never waits spends its time here: a call counts.
    async def _take_turns(self, worker: KeyWorker) -> None:  # noqa: C901, PLR0912
        limit, running, turns = self._limit, self._running, self.turns
        row = 0
        while (turn := self._next()) is not None:
            worker.turn = turn
            for context, made in turn.steps(worker):
                if type(made) is not list and made is not None:
                    worker.made = made
                    running[worker] = None
                    if limit is not None:
                        limit.arm(worker)
                    if type(made) is AsyncGeneratorType:
                        made = [result async for result in made]  # noqa: PLW2901
                    else:
                        if type(made) is CoroutineType:
                            made = await made  # noqa: PLW2901
                        if type(made) is not list:
                            made = await collected(made, self._stop)  # noqa: PLW2901
                    del running[worker]
                    if worker.is_overdue:
                        raise asyncio.CancelledError
                    worker.is_armed = False
                if self._soon is None:
                    self._soon = self._loop.loop.call_later(_SOON_SECONDS, self._loop.stop)
                if made or turn.outlasts:
                    self._complete.append((context, made))
                if self._is_halted:
                    return
                row += 1
                if row == _IN_A_ROW:
                    row = 0
                    if len(self._complete) >= _MOST_COMPLETE:
                        self._loop.stop()
                    self._yielding += 1
                    await asyncio.sleep(0)
                    self._yielding -= 1
            del turns[turn.encoded]
            if turn.outlasts:
                self._lasting -= 1
                self._lasting_workers -= 1
            self._is_dry = self._more is None

    def _stop_soon(self, handle: asyncio.TimerHandle | None) -> None:
        if self._soon is not None:
            self._soon.cancel()
        self._soon = handle

    def _stop(self, failure: BaseException) -> None:
        if self._error is None:
            self._error = failure
        self._is_halted = True
        self._loop.stop()

    def _stuck(self, worker: KeyWorker) -> None:
        assert self._limit is not None
        self._stop(self._limit.stuck_error(worker, worker.made))
