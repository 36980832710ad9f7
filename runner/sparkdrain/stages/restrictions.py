"""Restrictions waiting in a slot: processed one after the other, given away when asked to."""

from __future__ import annotations

import threading
from collections import deque
from math import ceil
from typing import TYPE_CHECKING, Any

from apache_beam.portability.api import beam_runner_api_pb2

from sparkdrain.graph import urns
from sparkdrain.shuffle.elements import mixed_run, read_runs

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sparkdrain.graph.plan import EdgeId, Stage
    from sparkdrain.shuffle.coding import ElementCoding


def restriction_edges(stage: Stage) -> frozenset[EdgeId]:
    """The edges that bring restrictions to process (``beam:transform:sdf_process_...:v1``)."""
    protos = {
        id_: beam_runner_api_pb2.PTransform.FromString(data) for id_, data in stage.transforms
    }
    processed = {
        pcollection
        for proto in protos.values()
        if proto.spec.urn == urns.PROCESS_RESTRICTIONS
        for pcollection in proto.inputs.values()
    }
    return frozenset(
        edge
        for transform, edge in stage.sources
        if edge is not None and processed & set(protos[transform].outputs.values())
    )


class RestrictionReader:
    """Takes in restrictions and feeds them; another thread may take some of them away.

    Every restriction is either fed or given away, and never both.
    """

    spilled = 0

    def __init__(self, coding: ElementCoding) -> None:
        self._coding = coding
        self._lock = threading.Lock()
        self._blocks: deque[bytes] = deque()
        self._waiting: deque[Any] = deque()
        self._split: Callable[[float], list[Any]] = _nothing

    def take(self, payload: memoryview, sources: Sequence[Any]) -> None:
        """Keep a block for later; restrictions are small, their encoding smaller."""
        with self._lock:
            self._blocks.append(bytes(payload))

    def hand_out(self, sources: Sequence[Any]) -> None:
        """Process all that is not given away in the meantime."""
        (source,) = sources
        self._split = source.split
        while (element := self._next()) is not None:
            source.feed_windowed([element])

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

    def close(self) -> None:
        """Nothing is kept on disk."""


def _nothing(keep: float) -> list[Any]:
    return []
