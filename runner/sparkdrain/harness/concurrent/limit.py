"""Ends attempts at elements that take longer than they may: one timer for all of a step."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Final, Protocol

from sparkdrain.harness.concurrent.standing import frames_of, line_of, standing

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

_GRACE_SECONDS: Final = 5.0


class Limited(Protocol):
    """What has an attempt under a limit.

    Attributes:
        began: when the present attempt began, by the clock of its limit.
        is_armed: whether that attempt is under the limit.
        is_overdue: whether the limit has ended the attempt.
        task: what runs the attempt.
    """

    began: float
    is_armed: bool
    is_overdue: bool
    task: asyncio.Task[None] | None


class TimeLimit:
    """The limit of a step. Attempts begin in order, so they are due in order.

    Args:
        seconds: that an attempt may take.
        loop: whose thread all calls come from.
        clock: seconds in which the loop has run, or might have.
        stuck: told of an element whose code goes on after it was cancelled, 5 s later.
    """

    def __init__(
        self,
        seconds: float,
        loop: asyncio.AbstractEventLoop,
        clock: Callable[[], float],
        stuck: Callable[[Any], None],
    ) -> None:
        self.seconds = seconds
        self._loop = loop
        self._clock = clock
        self._stuck = stuck
        self._begun: deque[tuple[float, Limited]] = deque()
        self._handle: asyncio.TimerHandle | None = None

    def arm(self, element: Limited) -> None:
        """An attempt at an element begins."""
        element.began = self._clock()
        begun = self._begun
        while begun and not _is_present(*begun[0]):
            begun.popleft()
        element.is_armed = True
        begun.append((element.began, element))
        if self._handle is None:
            self._handle = self._loop.call_later(self.seconds, self._ring)

    def _ring(self) -> None:
        self._handle = None
        begun, now = self._begun, self._clock()
        while begun:
            began, element = begun[0]
            if _is_present(began, element):
                left = began + self.seconds - now
                if left > 0:
                    self._handle = self._loop.call_later(left, self._ring)
                    return
                self._end(element)
            begun.popleft()

    def failure(self, element: Limited, error: BaseException) -> BaseException:
        """What an attempt has failed of that raised an error."""
        element.is_armed = False
        if not element.is_overdue:
            return error
        element.is_overdue = False
        if hasattr(element.task, "uncancel"):
            element.task.uncancel()  # type: ignore[union-attr]
        where = line_of(frames_of(error))
        msg = f"an element took longer than {self.seconds} s (timeout); it was at {where}"
        return TimeoutError(msg)

    def stuck_error(self, element: Any, made: Any) -> TimeoutError:
        """The error for an element whose code goes on after it was cancelled."""
        msg = (
            f"an element took longer than {self.seconds} s (timeout), and its code goes on "
            f"although it was cancelled: {line_of(standing(element, made))}. Let CancelledError "
            "pass"
        )
        return TimeoutError(msg)

    def _end(self, element: Limited) -> None:
        element.is_armed, element.is_overdue = False, True
        if element.task is not None:
            element.task.cancel()
        self._loop.call_later(_GRACE_SECONDS, self._look_again, element.began, element)

    def _look_again(self, began: float, element: Limited) -> None:
        if element.is_overdue and element.began == began:
            self._stuck(element)


def _is_present(began: float, element: Limited) -> bool:
    return element.is_armed and element.began == began
