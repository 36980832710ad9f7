"""Calls that answer within a time, or are given up: a disk that is far away may hang for ever."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


class NoAnswer(Exception):
    """A call has not answered in time; it may still take effect later.

    Attributes:
        thread: that waits for the answer.
    """

    def __init__(self, message: str, thread: threading.Thread) -> None:
        super().__init__(message)
        self.thread = thread


class InTime:
    """Makes calls, each in a thread of its own, and waits for no longer than a limit.

    While a call that was given up hangs, others fail at once. So no more threads hang than called
    at the same time. Thread-safe.

    Args:
        seconds: how long a call may take.
    """

    def __init__(self, seconds: float, name: str) -> None:
        self._seconds = seconds
        self._name = name
        self._hung: threading.Thread | None = None

    def call(self, whom: str, call: Callable[[], T]) -> T:
        """What ``call`` gives or raises.

        Args:
            whom: is asked, for the message.

        Raises:
            NoAnswer: it has not answered in time, or one before it still hangs.
        """
        if self._hung is not None and self._hung.is_alive():
            message = f"{whom} does not answer"
            raise NoAnswer(message, self._hung)
        answer: Future[T] = Future()

        def run() -> None:
            try:
                answer.set_result(call())
            except BaseException as error:  # noqa: BLE001 (raised by who waits)
                answer.set_exception(error)

        thread = threading.Thread(target=run, name=self._name, daemon=True)
        thread.start()
        thread.join(self._seconds)
        if not answer.done():
            self._hung = thread
            message = f"{whom} has not answered for {self._seconds:g} s"
            raise NoAnswer(message, thread)
        return answer.result()
