"""A pool of threads that a process does not wait for: a call that hangs does not keep it."""

from __future__ import annotations

import concurrent.futures
import queue
import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


class Threads:
    """Daemon threads, started as they are needed.

    Args:
        most: how many there may be.
        begin: called in each thread first.
    """

    def __init__(self, most: int, begin: Callable[[], None]) -> None:
        self._most = most
        self._begin = begin
        self._calls: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._idle = threading.Semaphore(0)
        self._started = 0

    def submit(self, function: Callable[[], Any]) -> concurrent.futures.Future[Any]:
        """Have a thread call ``function``; from the event loop only."""
        future: concurrent.futures.Future[Any] = concurrent.futures.Future()
        self._calls.put((future, function))
        if not self._idle.acquire(blocking=False) and self._started < self._most:
            self._started += 1
            threading.Thread(target=self._run, name="sparkdrain-call", daemon=True).start()
        return future

    def _run(self) -> None:
        self._begin()
        while (call := self._calls.get()) is not None:
            future, function = call
            if future.set_running_or_notify_cancel():
                try:
                    result = function()
                except BaseException as error:  # noqa: BLE001 - it is the call's
                    future.set_exception(error)
                else:
                    future.set_result(result)
            del call, future, function
            self._idle.release()

    def shutdown(self) -> None:
        """Have threads end when they have nothing to do."""
        for _ in range(self._started):
            self._calls.put(None)
