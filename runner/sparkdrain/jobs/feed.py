"""A bounded history that any number of readers follow at their own pace."""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Skipped:
    """Stands in a reader's stream for entries that were dropped before it came to them."""

    count: int


class MessageFeed(Generic[T]):
    """Keeps the last ``capacity`` entries; memory does not grow with readers or with time.

    A reader sees all entries in order, from the oldest one kept; one that is too slow sees
    ``Skipped`` where it missed some. A writer never waits. Thread-safe.
    """

    def __init__(self, capacity: int) -> None:
        self._changed = threading.Condition()
        self._entries: deque[T] = deque(maxlen=capacity)
        self._count = 0
        self._closed = False

    def append(self, entry: T) -> None:
        """Add an entry; ignored once the feed is closed."""
        with self._changed:
            if not self._closed:
                self._entries.append(entry)
                self._count += 1
                self._changed.notify_all()

    def close(self) -> None:
        """End the stream of every reader after what it has not seen yet."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def wake(self) -> None:
        """Let waiting readers look again at whether they are wanted."""
        with self._changed:
            self._changed.notify_all()

    def follow(self, is_wanted: Callable[[], bool] = lambda: True) -> Iterator[T | Skipped]:
        """Entries from the oldest kept one on, waiting for new ones until the feed is closed.

        Args:
            is_wanted: asked after every wait; False ends the stream (call ``wake`` after that).
        """
        position, closed = 0, False
        while not closed:
            with self._changed:
                while position == self._count and not self._closed and is_wanted():
                    self._changed.wait()
                oldest = self._count - len(self._entries)
                missed = max(0, oldest - position)
                batch = list(islice(self._entries, max(0, position - oldest), None))
                position, closed = self._count, self._closed or not is_wanted()
            if missed:
                yield Skipped(missed)
            yield from batch
