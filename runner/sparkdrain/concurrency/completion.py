"""What a DoFn returns for an element whose results a library hands to a callback later."""

from __future__ import annotations

import asyncio
import concurrent.futures
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable


class Completion:
    """The results of one element, which are completed or failed once, from any thread.

    Return it from ``process``, and hand ``complete`` and ``fail`` to a library as its callbacks. In
    an ``async def`` it can be awaited.
    """

    def __init__(self) -> None:
        self._future: concurrent.futures.Future[Any] = concurrent.futures.Future()
        self.refused: Callable[[BaseException], object] | None = None
        """A callback that is told, too, if it is completed or failed twice."""

    @property
    def future(self) -> concurrent.futures.Future[Any]:
        """The same as a future."""
        return self._future

    def complete(self, results: Iterable[Any] | None = None) -> None:
        """The element is processed, and has these results. Too late for a time limit: no effect.

        Raises:
            RuntimeError: it was completed or failed before.
        """
        try:
            self._future.set_result(results)
        except concurrent.futures.InvalidStateError:
            self._refuse("complete")

    def fail(self, error: BaseException) -> None:
        """The element has failed with ``error``. Too late for a time limit: no effect.

        Raises:
            RuntimeError: it was completed or failed before.
        """
        try:
            self._future.set_exception(error)
        except concurrent.futures.InvalidStateError:
            self._refuse("fail")

    def _refuse(self, call: str) -> None:
        if not self._future.cancelled():  # by a time limit
            how = "completed" if self._future.exception() is None else "failed"
            msg = (
                f"{call}() was called for an element that was {how} already. Call complete() or "
                "fail() once for each element"
            )
            error = RuntimeError(msg)
            if self.refused is not None:
                self.refused(error)
            raise error

    def __await__(self) -> Generator[Any, None, Any]:
        return asyncio.wrap_future(self._future).__await__()
