"""The event loop of this process: a thread of its own, made when the first step wants it."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from typing import TYPE_CHECKING, Any, Final, Protocol

from typing_extensions import override

from sparkdrain.harness.concurrent.tracker import enter_loop

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

_PATIENCE_SECONDS: Final = 1.0


class Bell(Protocol):
    """What the slot's thread waits for, as a ``threading.Event``."""

    def set(self) -> None:
        """End the wait; from any thread."""

    def clear(self) -> None:
        """The next wait is for another ``set``."""

    def wait(self, timeout: float) -> bool:
        """Whether it was set within so many seconds."""


class StepLoop(Protocol):
    """What a step with elements in flight needs of the loop that they run in."""

    loop: asyncio.AbstractEventLoop

    @property
    def thread(self) -> int | None:
        """The identifier of the loop's thread, if it has one of its own."""

    def soon(self, call: Callable[..., object], *args: object) -> None:
        """Have the loop call ``call``; from any thread that may hand work to it."""

    def wait(self, coroutine: Coroutine[Any, Any, Any], timeout: float | None = None) -> Any:
        """Run a coroutine in the loop, and wait for it; from the slot's thread.

        Raises:
            Exception: what the coroutine raises.
            TimeoutError: the loop has not come to its end within ``timeout`` seconds, since code
                keeps it. The coroutine is cancelled.
        """

    def bell(self) -> Bell:
        """What is rung in the loop."""

    def kept_for(self) -> float:
        """For how many seconds the loop has not answered; from one thread, now and then."""

    def is_kept(self) -> bool:
        """Whether code keeps the loop, as far as ``kept_for`` has found out; from any thread."""


class EventLoop(StepLoop):
    """An event loop that runs in a daemon thread; other threads hand work to it."""

    def __init__(self) -> None:
        self.loop = new_loop()
        self._answered = self._asked = time.monotonic()
        self._thread = threading.Thread(target=self._run, name="sparkdrain-loop", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        enter_loop()
        self.loop.run_forever()

    @property
    @override
    def thread(self) -> int | None:
        return self._thread.ident

    @override
    def soon(self, call: Callable[..., object], *args: object) -> None:
        self.loop.call_soon_threadsafe(call, *args)

    @override
    def wait(self, coroutine: Coroutine[Any, Any, Any], timeout: float | None = None) -> Any:
        future = asyncio.run_coroutine_threadsafe(coroutine, self.loop)
        try:
            return future.result(timeout)
        finally:
            future.cancel()

    @override
    def bell(self) -> Bell:
        return threading.Event()

    @override
    def kept_for(self) -> float:
        now = time.monotonic()
        if self._answered >= self._asked:
            self._asked = now
            self.soon(self._answer)
        return now - self._asked

    def _answer(self) -> None:
        self._answered = time.monotonic()

    @override
    def is_kept(self) -> bool:
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
