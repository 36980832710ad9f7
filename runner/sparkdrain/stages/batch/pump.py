"""Lets code that pushes run behind an interface that pulls, in bounded memory.

A Spark task is a generator that Spark pulls from; a bundle pushes elements, any number of them
for one that goes in. The bundle therefore runs in a thread and waits while Spark has not taken
what it sent.
"""

from __future__ import annotations

import queue
import threading
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

T = TypeVar("T")
_ROOM = 4
_PATIENCE_SECONDS = 0.2


class PullerGone(BaseException):
    """Raised in the pushing code when the pulling code has stopped."""

    _tagged_with_step = True
    """User code did not raise it: Beam raises it again as it is, and names no step."""


class Pump(Generic[T]):
    """Runs ``work(push)`` in a thread; iterate to get what it pushes."""

    def __init__(self, work: Callable[[Callable[[T], None]], None]) -> None:
        self._work = work
        self._items: queue.Queue[T | None] = queue.Queue(_ROOM)
        self._abandoned = threading.Event()
        self._error: BaseException | None = None

    def _push(self, item: T | None) -> None:
        while not self._abandoned.is_set():
            try:
                self._items.put(item, timeout=_PATIENCE_SECONDS)
            except queue.Full:
                continue
            return
        raise PullerGone

    def _run(self) -> None:
        try:
            self._work(self._push)
        except BaseException as error:  # noqa: BLE001 - raised again where it is pulled
            self._error = error
        try:
            self._push(None)
        except PullerGone:
            return

    def __iter__(self) -> Iterator[T]:
        thread = threading.Thread(target=self._run, name="sparkdrain-slot", daemon=True)
        thread.start()
        try:
            while (item := self._items.get()) is not None:
                yield item
            thread.join()
        finally:
            self._abandoned.set()
        if self._error is not None:
            raise self._error
