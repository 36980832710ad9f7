"""Event loops of steps: that of this process, in a thread of its own, and those of slots."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time
from typing import TYPE_CHECKING, Any, Final, Protocol

from typing_extensions import override

from sparkdrain.harness.concurrent.tracker import enter_loop

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable

_LOGGER = logging.getLogger(__name__)

LAST_SECONDS: Final = 2.0
"""Seconds for which code may go on that was cancelled."""
_PATIENCE_SECONDS: Final = 1.0
# While nothing runs the loop for longer, time stands still in it.
_REST_SECONDS: Final = 0.25
# The callback in which uvloop calls the handlers of signals.
_OF_SIGNALS: Final = "_read_from_self"


class StepLoop(Protocol):
    """Where the methods of an asynchronous DoFn run."""

    loop: asyncio.AbstractEventLoop

    def wait(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        """Run a coroutine in the loop, and wait for it; from the slot's thread.

        Raises:
            Exception: what the coroutine raises.
        """


class EventLoop(StepLoop):
    """An event loop that runs in a daemon thread; other threads hand work to it.

    Attributes:
        thread: the identifier of the loop's thread.
    """

    def __init__(self) -> None:
        self.loop = new_loop()
        self._answered = self._asked = time.monotonic()
        thread = threading.Thread(target=self._run, name="sparkdrain-loop", daemon=True)
        thread.start()
        self.thread = thread.ident

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        enter_loop()
        self.loop.run_forever()

    def soon(self, call: Callable[..., object], *args: object) -> None:
        """Have the loop call ``call``; from any thread."""
        self.loop.call_soon_threadsafe(call, *args)

    @override
    def wait(self, coroutine: Coroutine[Any, Any, Any], timeout: float | None = None) -> Any:
        """The same.

        Raises:
            TimeoutError: the loop has not come to its end within ``timeout`` seconds, since code
                keeps it. The coroutine is cancelled.
        """
        future = asyncio.run_coroutine_threadsafe(coroutine, self.loop)
        try:
            return future.result(timeout)
        finally:
            future.cancel()

    def kept_for(self) -> float:
        """Seconds for which the loop has not answered; to be asked by one thread, now and then."""
        now = time.monotonic()
        if self._answered >= self._asked:
            self._asked = now
            self.soon(self._answer)
        return now - self._asked

    def _answer(self) -> None:
        self._answered = time.monotonic()

    def is_kept(self) -> bool:
        """Whether code keeps the loop, as far as ``kept_for`` has found out; from any thread."""
        asked = self._asked
        return self._answered < asked and time.monotonic() - asked > _PATIENCE_SECONDS


def new_loop() -> asyncio.AbstractEventLoop:
    """A loop of uvloop's, if that is installed."""
    try:
        import uvloop  # noqa: PLC0415 - an extra
    except ImportError:
        return asyncio.new_event_loop()
    made: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return made


_LOCK: Final = threading.Lock()
_LOOPS: dict[int, EventLoop] = {}


def event_loop() -> EventLoop:
    """The loop of this process. A process that was forked has another one than its parent."""
    process = os.getpid()
    with _LOCK:
        found = _LOOPS.get(process)
        if found is None:
            _LOOPS.clear()
            found = _LOOPS[process] = EventLoop()
        return found


os.register_at_fork(
    before=_LOCK.acquire, after_in_parent=_LOCK.release, after_in_child=_LOCK.release
)


class SlotLoop(StepLoop):
    """The loop of steps whose elements use state, which belongs to the slot's thread.

    Nothing in it goes on while the slot's thread is elsewhere. So such steps land whenever they
    have been fed. All steps of a stage share one loop.
    """

    def __init__(self) -> None:
        self.loop = new_loop()
        self.loop.set_exception_handler(self._take_error)
        self._stops = False
        self._signal: BaseException | None = None
        self._left = self.loop.time()
        self._stood = 0.0

    def time(self) -> float:
        """Seconds of the loop's clock, without those in which it could not take an answer.

        Call it in the loop. A short rest counts, as that between two rounds.
        """
        return self.loop.time() - self._stood

    @override
    def wait(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        task = self.loop.create_task(coroutine)
        task.add_done_callback(lambda _: self.stop())
        while not task.done():
            self.run(None)
        return task.result()

    def run(self, seconds: float | None) -> None:
        """Run until ``stop`` is called, or so many seconds have passed.

        Raises:
            BaseException: what the handler of a signal has raised meanwhile.
        """
        self._stops = False
        self._stood += max(0.0, self.loop.time() - self._left - _REST_SECONDS)
        end = None if seconds is None else self.loop.call_later(seconds, self.stop)
        try:
            self.loop.run_forever()
        finally:
            if end is not None:
                end.cancel()
            self._left = self.loop.time()
        if self._signal is not None:
            error, self._signal = self._signal, None
            raise error

    def _take_error(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        # uvloop only logs what such a handler raises.
        if _OF_SIGNALS in str(context.get("message")):
            self._signal = context.get("exception")
            self.stop()
        else:
            loop.default_exception_handler(context)

    def stop(self) -> None:
        """Have ``run`` come back soon; from code that runs in the loop."""
        if not self._stops:  # else the next run would end at once
            self._stops = True
            self.loop.stop()

    def close(self) -> None:
        """End what user code has started there and left behind."""
        for task in asyncio.all_tasks(self.loop):
            task.cancel()
        self.loop.run_until_complete(self.loop.shutdown_asyncgens())
        self.loop.close()


async def cancel_all(tasks: Iterable[asyncio.Task[Any]], described: Callable[[], str]) -> None:
    """Cancel tasks, and wait for them for 2 s; log ``described()`` if one goes on."""
    workers = set(tasks)
    for worker in workers:
        worker.cancel()
    if workers:
        _, left = await asyncio.wait(workers, timeout=LAST_SECONDS)
        if left:
            _LOGGER.warning(
                "%s does not end although it was cancelled (%d in all)", described(), len(left)
            )
