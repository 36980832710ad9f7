"""Tells the engine that its job is to be drained, or asks it what a drain would find."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from sparkdrain.types import call_all

if TYPE_CHECKING:
    from collections.abc import Callable

    from sparkdrain.drain.notification import DrainNotification
    from sparkdrain.drain.progress import DrainProgress


class Inquiry:
    """A question that any thread may ask at any time; the engine answers all askers at once.

    Thread-safe. Callbacks run in a thread that asks.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._asked = 0
        self._answered = 0
        self._answer: DrainProgress | str = ""
        self._declined: str | None = None
        self._callbacks: list[Callable[[], object]] = []

    def ask(self, seconds: float) -> DrainProgress | str | None:
        """Ask, and wait for the answer.

        Args:
            seconds: how long to wait.

        Returns:
            What is inside of the job; or why that cannot be told; or None: no answer came in time.
        """
        with self._changed:
            if self._declined is not None:
                return self._declined
            self._asked += 1
            mine = self._asked
            callbacks = list(self._callbacks)
        call_all(callbacks, "a question")
        with self._changed:
            answered = self._changed.wait_for(lambda: self._answered >= mine, seconds)
            return self._answer if answered else None

    def wanted(self) -> int:
        """The number of the newest question that has no answer; 0: there is none."""
        with self._changed:
            return self._asked if self._asked > self._answered else 0

    def answer(self, question: int, answer: DrainProgress | str) -> None:
        """Answer every question up to this number, as ``wanted`` has told it."""
        with self._changed:
            self._answered = max(self._answered, question)
            self._answer = answer
            self._changed.notify_all()

    def decline(self, reason: str) -> None:
        """Answer every question, those to come too, with a reason why there is no other answer."""
        with self._changed:
            self._declined = reason
            self.answer(self._asked, reason)

    def on_ask(self, callback: Callable[[], object]) -> None:
        """Run ``callback`` at each question: it wakes the driver, which is to answer."""
        with self._changed:
            self._callbacks.append(callback)


class DrainSignal:
    """Carries the first request to drain one job, once and for good. Thread-safe.

    A caller of ``request`` need not know whether the job has started, drains already, or is over.
    Callbacks run in the thread that requests, in the order in which they were registered, each at
    most once; one that is registered too late runs at once.

    Attributes:
        inquiry: what a drain would find can be asked, too, without a drain.
    """

    def __init__(self) -> None:
        self.inquiry = Inquiry()
        self._lock = threading.Lock()
        self._notification: DrainNotification | None = None
        self._callbacks: list[Callable[[], object]] = []

    def request(self, notification: DrainNotification) -> bool:
        """Ask for a drain; does not wait for it.

        Returns:
            Whether this was the first request. Later ones change nothing.
        """
        with self._lock:
            if self._notification is not None:
                return False
            self._notification = notification
            callbacks, self._callbacks = self._callbacks, []
        call_all(callbacks, "a drain request")
        return True

    def requested(self) -> DrainNotification | None:
        """The first request; None as long as there is none."""
        return self._notification

    def on_request(self, callback: Callable[[], object]) -> None:
        """Run ``callback`` when a drain is requested, or now if it was already."""
        with self._lock:
            if self._notification is None:
                self._callbacks.append(callback)
                return
        call_all([callback], "a drain request")
