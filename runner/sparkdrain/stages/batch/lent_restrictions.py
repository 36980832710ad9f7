"""Restrictions waiting in a slot: processed one after the other, given away when asked to."""

from __future__ import annotations

import threading
from collections import deque
from math import ceil
from typing import TYPE_CHECKING, Any

from typing_extensions import override

from sparkdrain.shuffle.elements import mixed_run, read_runs
from sparkdrain.stages.shards.inputs import Input

if TYPE_CHECKING:
    from collections.abc import Callable

    from sparkdrain.shuffle.coding import ElementCoding
    from sparkdrain.stages.shards.inputs import Source
    from sparkdrain.stages.shards.turn import Turn


class LentRestrictions(Input):
    """Takes in restrictions and feeds them; another thread may take some of them away.

    Every restriction is either fed or given away, and never both.
    """

    def __init__(self, coding: ElementCoding, source: Source) -> None:
        self._coding = coding
        self._source = source
        self._lock = threading.Lock()
        self._blocks: deque[bytes] = deque()
        self._waiting: deque[Any] = deque()
        self._split: Callable[[float], list[Any]] = _nothing

    @override
    def take(self, payload: memoryview) -> None:
        # Restrictions are small, and their encoding is smaller.
        with self._lock:
            self._blocks.append(bytes(payload))

    @override
    def advance(self, turn: Turn) -> None:
        """Process all that is not given away in the meantime."""
        self._split = self._source.split
        while (element := self._next()) is not None:
            self._source.feed_windowed([element])

    def _next(self) -> Any:
        with self._lock:
            while not self._waiting:
                if not self._blocks:
                    return None
                self._waiting.extend(self._elements(self._blocks.popleft()))
            return self._waiting.popleft()

    def _elements(self, payload: bytes) -> list[Any]:
        elements: list[Any] = []
        for context, values in read_runs(memoryview(payload), self._coding):
            if context is None:
                elements += values
            else:
                elements += map(context.with_value, values)
        return elements

    def give(self, fraction: float) -> bytes | None:
        """Give away about that part of what is left, as a block; None if there is nothing.

        Whole restrictions if any are waiting, else a part of the one being processed. May be
        called from any thread.
        """
        with self._lock:
            while self._blocks:
                self._waiting.extend(self._elements(self._blocks.popleft()))
            count = ceil(len(self._waiting) * fraction)
            given = [self._waiting.pop() for _ in range(count)]
        if not given:
            given = self._split(1 - fraction)
        return mixed_run(given, self._coding) if given else None


def _nothing(keep: float) -> list[Any]:
    return []
