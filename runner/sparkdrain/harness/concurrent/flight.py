"""The elements of one step that are in flight: what the slot's thread and the loop share.

Invariants. Elements start in the order in which they arrived, except that one waits for the one
before it of its key. At most ``max_in_flight`` attempts run. An element is complete once. After an
error nothing starts.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import math
import threading
from collections import deque
from types import CoroutineType
from typing import TYPE_CHECKING, Any, Final

from sparkdrain.concurrency.completion import Completion
from sparkdrain.concurrency.concurrently import letter
from sparkdrain.concurrency.results import collect
from sparkdrain.harness.compiled.generate import refuse
from sparkdrain.harness.concurrent.element import ElementInFlight
from sparkdrain.harness.concurrent.limit import TimeLimit
from sparkdrain.harness.concurrent.loop import LAST_SECONDS, cancel_all
from sparkdrain.harness.concurrent.room import WAITING
from sparkdrain.harness.concurrent.standing import line_of, of_thread, standing
from sparkdrain.harness.concurrent.tracker import STEP

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sparkdrain.concurrency.settings import Concurrency
    from sparkdrain.harness.concurrent.loop import EventLoop
    from sparkdrain.harness.concurrent.tracker import StepMetrics
    from sparkdrain.harness.step_book import Frame

_LOGGER = logging.getLogger(__name__)

# A worker whose elements never wait lets others go on after so many.
_IN_A_ROW: Final = 64
_LOOK_SECONDS: Final = 1.0
_KEPT_SECONDS: Final = 2.0


async def collected(made: Any, refuse_twice: Callable[[BaseException], object]) -> Any:
    """What user code has made of an element, if it is no list.

    Args:
        made: what it has returned.
        refuse_twice: told if a ``Completion`` is completed twice.

    Raises:
        TypeError: these are no results.
    """
    if type(made) is Completion:
        made.refused = refuse_twice
    made = await collect(made)
    if isinstance(made, (str, bytes, dict)):
        refuse(made)
    return made


class _Worker:
    """A task that processes one element after the other.

    Attributes:
        element: the present one.
        made: the coroutine, or the like, that user code has made for it.
    """

    __slots__ = ("element", "made", "task")

    def __init__(self, task: asyncio.Task[None]) -> None:
        self.task = task
        self.element: Any = None
        self.made: Any = None


class StepFlight:
    """Elements of one step, from ``push`` to ``take``.

    ``push``, ``take``, ``wait`` and ``abandon`` are called from the slot's thread; ``standing``
    from any; all else happens in the loop.

    Args:
        settings: how many are in flight, and what becomes of them.
        call: starts an attempt: ``call(element)``. What it returns is awaited and collected.
        plain_call: the same for a plain element: ``plain_call(value)``.

    Attributes:
        inside: how many elements were pushed and not taken.
        most: up to so many may be inside.
    """

    def __init__(
        self,
        name: str,
        settings: Concurrency,
        loop: EventLoop,
        metrics: StepMetrics,
        call: Callable[[ElementInFlight], Any],
        plain_call: Callable[[Any], Any] | None = None,
    ) -> None:
        self._name = name
        self._settings = settings
        self._loop = loop
        self._metrics = metrics
        self._call = call
        self._plain_call: Any = plain_call
        # Of the slot's thread.
        self.inside = 0
        self._arrived: deque[Any] = deque()
        self._is_ordered = settings.order == "input"
        self._most_running = settings.max_in_flight
        self.most = settings.max_in_flight + WAITING
        # Of both: deques, flags and a bell.
        self._queue: deque[Any] = deque()
        self._complete: deque[Any] = deque()
        self._bell = threading.Event()
        self._error: BaseException | None = None
        self._is_awake = False
        self._is_halted = False
        # Of the loop.
        self._running: dict[_Worker, None] = {}
        self._behind: dict[Any, deque[ElementInFlight]] = {}
        self._ready: deque[ElementInFlight] = deque()
        self._workers: set[asyncio.Task[None]] = set()
        self._burst = 1
        self._is_ringing = False
        self._limit: TimeLimit | None = None
        if settings.timeout is not None:
            self._limit = TimeLimit(settings.timeout, loop.loop, loop.loop.time, self._stuck)

    # --- the slot's thread --------------------------------------------------------------------

    @property
    def is_full(self) -> bool:
        """Whether the caller has to wait before it pushes another element."""
        return self.inside >= self.most

    def push(self, element: ElementInFlight | tuple[Any, Any]) -> bool:
        """Hand an element over. It starts when its turn comes.

        Args:
            element: a plain one is a tuple of its context and its value. It has no key, and its
                step has neither an order nor a time limit.

        Returns:
            Whether the caller has to ``take`` elements or to wait before it goes on.
        """
        self.inside += 1
        if self._is_ordered:
            self._arrived.append(element)
        self._queue.append(element)
        if not self._is_awake and len(self._workers) < self._most_running:
            self._is_awake = True
            self._loop.soon(self._pump)
        return self.inside >= self.most or bool(self._complete) or self._error is not None

    def take(self) -> list[Any]:
        """Elements that are complete, in the order in which their results may leave.

        A plain one is a tuple of its context and its results.

        Raises:
            BaseException: an element has failed for good.
        """
        if self._error is not None:
            raise self._error
        complete = self._complete
        if self._is_ordered:
            complete.clear()
            taken = []
            arrived = self._arrived
            while arrived and arrived[0].is_complete:
                taken.append(arrived.popleft())
        else:
            taken = [complete.popleft() for _ in range(len(complete))]
        self.inside -= len(taken)
        return taken

    def wait(self, seconds: float = math.inf) -> None:
        """Wait until an element is complete or has failed; tell of code that keeps the loop.

        Args:
            seconds: at most so long.
        """
        told = False
        bell = self._bell
        bell.clear()
        while not (self._complete or self._error) and not bell.wait(min(_LOOK_SECONDS, seconds)):
            seconds -= _LOOK_SECONDS
            if seconds <= 0:
                return
            if self._loop.kept_for() > _KEPT_SECONDS and not told:
                told = True
                _LOGGER.warning(
                    "%r waits for the event loop, which code keeps: %s. Calls that block belong "
                    "into a thread: leave process a plain def, or use asyncio.to_thread",
                    self._name,
                    line_of(of_thread(self._loop.thread)),
                )

    def abandon(self) -> None:
        """Cancel all that is in flight, and wait for that for 2 s; name what goes on."""
        self._is_halted = True
        self._queue.clear()
        if self._workers:
            try:
                cancelled = cancel_all(self._workers, self.described)
                self._loop.wait(cancelled, LAST_SECONDS + _LOOK_SECONDS)
            except concurrent.futures.TimeoutError:
                _LOGGER.warning(
                    "%r is given up while code keeps the event loop: %s",
                    self._name,
                    line_of(of_thread(self._loop.thread)),
                )

    def standing(self) -> Sequence[Frame]:
        """Where the code stands that has been in flight longest; from any thread."""
        if self._loop.is_kept():
            return of_thread(self._loop.thread)
        oldest = next(iter(self._running.copy()), None)
        return () if oldest is None else standing(oldest.element, oldest.made)

    def described(self) -> str:
        """How many elements are in flight, and where the oldest stands."""
        count = len(self._running)
        return f"{self._name!r}: {count} in flight, the oldest at {line_of(self.standing())}"

    # --- the loop -----------------------------------------------------------------------------

    def _pump(self) -> None:
        """Start workers, each time twice as many: those that never wait need few."""
        if self._is_halted:
            self._is_awake = False
            return
        room = self._most_running - len(self._workers)
        count = min(len(self._queue) + len(self._ready), room, self._burst)
        for _ in range(count):
            self._workers.add(self._loop.loop.create_task(self._work()))
        self._burst *= 2
        if count <= 0:
            self._burst, self._is_awake = 1, False
            if room <= 0 or not self._queue:
                return
            self._is_awake = True  # an element has arrived in between
        self._loop.loop.call_soon(self._pump)

    def _next(self) -> Any:
        """The element that starts now, if one may."""
        if self._is_halted:
            return None
        if self._ready:
            return self._ready.popleft()
        queue = self._queue
        while queue:
            element = queue.popleft()
            if type(element) is tuple or element.key is None:
                return element
            behind = self._behind.get(element.key)
            if behind is None:
                self._behind[element.key] = deque()
                return element
            behind.append(element)
        return None

    async def _work(self) -> None:
        """Process elements one after the other, until none may start."""
        STEP.set(self._metrics)
        task = asyncio.current_task()
        assert task is not None
        worker = _Worker(task)
        try:
            await self._process(worker)
        except Exception as error:  # noqa: BLE001 - else the slot would wait for ever
            self._stop(error)
        finally:
            self._running.pop(worker, None)
            self._workers.discard(task)
            if (self._queue or self._ready) and not self._is_awake:
                self._is_awake = True
                self._loop.loop.call_soon(self._pump)

    # One function, since an element that never waits spends its time here: a call counts.
    async def _process(self, worker: _Worker) -> None:  # noqa: C901, PLR0912
        call, plain_call, complete = self._call, self._plain_call, self._complete
        running, queue, ready = self._running, self._queue, self._ready
        row = 0
        element = self._next()
        while element is not None:
            worker.element = element
            running[worker] = None
            is_plain = type(element) is tuple
            try:
                if is_plain:
                    made = worker.made = plain_call(element[1])
                else:
                    if element.failed or self._limit is not None:
                        await self._begin(element, worker)
                    made = worker.made = call(element)
                if type(made) is CoroutineType:
                    made = await made
                if type(made) is not list:
                    made = await collected(made, self._stop)
                if is_plain:
                    complete.append((element[0], made))
                    self._ring_soon()
                else:
                    self._completed(element, made)
            except BaseException as error:  # noqa: BLE001 - raised in the slot's thread
                if is_plain:
                    context, value = element
                    element = ElementInFlight(context, (value,), None)
                if self._is_tried_again(element, error):
                    continue
            del running[worker]
            row += 1
            if row == _IN_A_ROW:
                row = 0
                await asyncio.sleep(0)
            if queue and type(queue[0]) is tuple and not (ready or self._is_halted):
                element = queue.popleft()
            else:
                element = self._next()

    async def _begin(self, element: ElementInFlight, worker: _Worker) -> None:
        """Begin an attempt that has a time limit, or comes after one that has failed."""
        if element.failed:
            await asyncio.sleep(self._settings.pause(element.failed - 1))
        if self._limit is not None:
            element.task = worker.task
            self._limit.arm(element)

    def _is_tried_again(self, element: ElementInFlight, error: BaseException) -> bool:
        """Whether another attempt at an element follows, after one that has failed."""
        failure = error if self._limit is None else self._limit.failure(element, error)
        if self._is_halted:
            return False
        if element.failed >= self._settings.retries or not isinstance(failure, Exception):
            self._failed(element, failure)
            return False
        element.failed += 1
        return True

    def _completed(self, element: ElementInFlight, results: Any) -> None:
        """Note that an element is complete.

        Raises:
            asyncio.CancelledError: the attempt has taken too long, whatever was made of that.
        """
        if element.is_overdue:
            raise asyncio.CancelledError
        element.results = results
        element.is_complete = True
        element.is_armed = False
        if element.key is not None:
            self._after(element.key)
        self._complete.append(element)
        self._ring_soon()

    def _after(self, key: Any) -> None:
        behind = self._behind[key]
        if behind:
            self._ready.append(behind.popleft())
        else:
            del self._behind[key]

    def _failed(self, element: ElementInFlight, failure: BaseException) -> None:
        if self._settings.dead_letter and isinstance(failure, Exception):
            dead = letter(self._settings.dead_letter, element.args[0], failure)
            self._completed(element, [dead])
        else:
            self._stop(failure)

    def _stop(self, failure: BaseException) -> None:
        if self._error is None:
            self._error = failure
        self._is_halted = True
        self._bell.set()

    def _stuck(self, element: ElementInFlight) -> None:
        made = next((each.made for each in self._running if each.element is element), None)
        assert self._limit is not None
        self._stop(self._limit.stuck_error(element, made))

    def _ring_soon(self) -> None:
        if not self._is_ringing:
            self._is_ringing = True
            self._loop.loop.call_soon(self._ring)

    def _ring(self) -> None:
        self._is_ringing = False
        self._bell.set()
