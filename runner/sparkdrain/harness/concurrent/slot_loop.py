"""An event loop that runs in the slot's thread, whenever that thread lets it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from typing_extensions import override

from sparkdrain.harness.concurrent.loop import StepLoop, new_loop

if TYPE_CHECKING:
    from collections.abc import Coroutine

# While nothing runs the loop for longer, time stands still in it.
_REST_SECONDS: Final = 0.25
# The callback in which uvloop calls the handlers of signals.
_OF_SIGNALS: Final = "_read_from_self"


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
