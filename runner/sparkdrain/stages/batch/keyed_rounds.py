"""Feeds stateful DoFns of a batch job: keys have rounds, in which time goes to its end."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from typing_extensions import override

from sparkdrain.harness.harness import KeyedEdge
from sparkdrain.harness.limits import EVERYTHING
from sparkdrain.shuffle.keyed_blocks import KeyedBlocks
from sparkdrain.shuffle.keys import key_codec
from sparkdrain.stages.shards.input import Input

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sparkdrain.graph.plan import Edge
    from sparkdrain.graph.readers import Stateful
    from sparkdrain.stages.batch.state import SlotState
    from sparkdrain.stages.shards.codings import Codings
    from sparkdrain.stages.shards.source import Source
    from sparkdrain.stages.shards.turn import Turn

# So many keys have a round at a time: what is at work fits into a processor's cache.
_KEYS: Final = 1024
# The part of the budget of memory that the elements of these keys may take.
_PART: Final = 32

KeyedGroup = tuple[bytes, Any]
"""A key and its chunk, or its chunks."""


class KeyedRounds(Input):
    """Feeds some keys at a time. Each such round is that of a streaming job which is drained.

    In a round, each key gets all of its elements; then all timers fire, event time first. Nothing
    of these keys is left then, so the round is taken back: what is in memory is never written.

    Args:
        source: where it enters the stage.
        memory_bytes: how much of the input is in memory.
    """

    def __init__(
        self,
        edge: Edge,
        source: Source,
        stateful: Sequence[Stateful],
        codings: Codings,
        state: SlotState,
        memory_bytes: int,
    ) -> None:
        coder = codings.coder(edge)
        self._edge = edge
        self._source = source
        self._state = state
        _, decode_key = key_codec(coder.key_coder())
        self._keyed = KeyedEdge(
            source.transform,
            [one.transform for one in stateful],
            codings.elements(edge, coder.value_coder()),
            decode_key,
        )
        self._blocks = KeyedBlocks(memory_bytes, state.scratch)
        self._round_bytes = memory_bytes // _PART

    @property
    @override
    def spilled(self) -> int:
        return self._blocks.spilled_bytes

    @override
    def take(self, payload: memoryview) -> None:
        self._blocks.add(payload)

    @override
    def advance(self, turn: Turn) -> None:
        groups = iter(self._blocks.groups(lambda table: table.items()))
        for first in groups:
            self._round(self._some(first, groups))

    def _some(self, first: KeyedGroup, groups: Iterator[KeyedGroup]) -> Iterator[KeyedGroup]:
        """The keys of one round."""
        left = self._round_bytes
        for number, (key, chunks) in enumerate(chain((first,), groups), 1):
            yield key, chunks
            left -= _size_of(chunks)
            if left <= 0 or number == _KEYS:
                return

    def _round(self, groups: Iterator[KeyedGroup]) -> None:
        inlet = self._source.shard.open().keyed(self._keyed)
        inlet.feed(groups, self._elements, _never_late)
        for transform in self._keyed.stateful:
            inlet.fire(transform, EVERYTHING)
        self._state.overlay.rollback()
        self._source.shard.resume_due()

    def _elements(self, chunks: Any) -> Iterator[list[Any]]:
        decode = self._keyed.coding.windowed_values.decode
        batches = map(decode, (chunks,) if type(chunks) is bytes else chunks)
        if not self._edge.time_sorted:
            return batches
        elements = [element for batch in batches for element in batch]
        elements.sort(key=lambda element: element.timestamp_micros)
        return iter((elements,))

    @override
    def close(self) -> None:
        self._blocks.clear()


def _size_of(chunks: Any) -> int:
    """The bytes of a key's chunks. Chunks on disk are not read: they count as 1 << 62."""
    if type(chunks) is bytes:
        return len(chunks)
    return sum(map(len, chunks)) if type(chunks) is list else 1 << 62


def _never_late(element: Any) -> bool:
    return False
