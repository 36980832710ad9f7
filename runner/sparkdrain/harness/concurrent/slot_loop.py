"""An event loop that runs in the slot's thread, whenever that thread waits for an element."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from typing_extensions import override

from sparkdrain.harness.concurrent.loop import Bell, StepLoop, new_loop

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine


class SlotLoop(StepLoop):
    """The loop of steps whose elements use state, which belongs to the slot's thread.

    Nothing in it goes on while the slot's thread is elsewhere. So such steps land whenever they
    have been fed. All steps of a stage share one loop.
    """

    thread = None

    def __init__(self) -> None:
        self.loop = new_loop()
        self._bell = _SlotBell(self.loop)

    @override
    def soon(self, call: Callable[..., object], *args: object) -> None:
        self.loop.call_soon(call, *args)

    @override
    def wait(self, coroutine: Coroutine[Any, Any, Any], timeout: float | None = None) -> Any:
        return self.loop.run_until_complete(coroutine)

    @override
    def bell(self) -> Bell:
        return self._bell

    @override
    def kept_for(self) -> float:
        return 0.0

    @override
    def is_kept(self) -> bool:
        return False

    def close(self) -> None:
        """End what user code has started there and left behind."""
        for task in asyncio.all_tasks(self.loop):
            task.cancel()
        self.loop.run_until_complete(self.loop.shutdown_asyncgens())
        self.loop.close()


class _SlotBell(Bell):
    """One for all steps of the loop. The thread that waits for it runs the loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._is_set = False

    @override
    def set(self) -> None:
        self._is_set = True
        loop = self._loop
        loop.call_soon_threadsafe(loop.stop)

    @override
    def clear(self) -> None:
        self._is_set = False

    @override
    def wait(self, timeout: float) -> bool:
        if not self._is_set:
            loop = self._loop
            end = loop.call_later(timeout, loop.stop)
            loop.run_forever()
            end.cancel()
        return self._is_set
