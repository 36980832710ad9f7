"""Feeds stateful DoFns of a batch job: keys have rounds, in which time goes to its end."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from sparkdrain.keyed.blocks import KeyedBlocks
from sparkdrain.keyed.due import Due
from sparkdrain.keyed.feeding import feeder_for
from sparkdrain.keyed.up_to import EVERYTHING
from sparkdrain.shuffle.keys import key_codec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from sparkdrain.graph.plan import Edge
    from sparkdrain.keyed.stateful import Stateful
    from sparkdrain.stages.codings import Codings
    from sparkdrain.stages.shard import Source
    from sparkdrain.stages.state import SlotState

# So many keys have a round at a time: what is at work fits into a processor's cache.
_KEYS: Final = 1024
# The part of the budget of memory that the elements of these keys may take.
_PART: Final = 32

KeyedGroup = tuple[bytes, Any]
"""A key and its chunk, or its chunks."""


class KeyedReader:
    """Feeds some keys at a time. Each such round is that of a streaming job which is drained.

    In a round, each key gets all of its elements; then all timers fire, event time first. Nothing
    of these keys is left then, so the round is taken back: what is in memory is never written.

    Args:
        edge: a KEYED edge.
        codings: of the plan.
        state: of the slot.
        memory_bytes: how much of the input is in memory.
        scratch: where the rest of the input goes.
    """

    def __init__(
        self,
        edge: Edge,
        codings: Codings,
        state: SlotState,
        memory_bytes: int,
        scratch: Callable[[], Path],
    ) -> None:
        coder = codings.coder(edge)
        self._edge = edge
        self._state = state
        self._coding = codings.elements(edge, coder.value_coder())
        _, self._decode_key = key_codec(coder.key_coder())
        self._blocks = KeyedBlocks(memory_bytes, scratch)
        self._round_bytes = memory_bytes // _PART

    @property
    def spilled(self) -> int:
        """Bytes that went to disk."""
        return self._blocks.spilled_bytes

    def take(self, payload: memoryview, sources: Sequence[Source]) -> None:
        """Collect a block."""
        self._blocks.add(payload)

    def hand_out(self, sources: Sequence[Source]) -> None:
        """Feed all keys."""
        (source,) = sources
        stateful = self._state.behind(self._edge)
        groups = iter(self._blocks.groups(lambda table: table.items()))
        for first in groups:
            self._round(source, stateful, self._some(first, groups))

    def _some(self, first: KeyedGroup, groups: Iterator[KeyedGroup]) -> Iterator[KeyedGroup]:
        """The keys of one round."""
        left = self._round_bytes
        for number, (key, chunks) in enumerate(chain((first,), groups), 1):
            yield key, chunks
            left -= _size_of(chunks)
            if left <= 0 or number == _KEYS:
                return

    def _round(
        self, source: Source, stateful: Sequence[Stateful], groups: Iterator[KeyedGroup]
    ) -> None:
        overlay, decode_key = self._state.overlay, self._decode_key
        feeder = feeder_for(source, stateful, self._coding, decode_key, _never_late)
        feeder.feed(groups, self._elements)
        for one in stateful:
            Due(one, EVERYTHING, source, overlay, decode_key, None).fire()
        overlay.rollback()
        source.shard.resume_due()

    def _elements(self, chunks: Any) -> Iterator[list[Any]]:
        decode = self._coding.windowed_values.decode
        batches = map(decode, (chunks,) if type(chunks) is bytes else chunks)
        if not self._edge.time_sorted:
            return batches
        elements = [element for batch in batches for element in batch]
        elements.sort(key=lambda element: element.timestamp_micros)
        return iter((elements,))

    def close(self) -> None:
        """Give disk space back."""
        self._blocks.clear()


def _size_of(chunks: Any) -> int:
    """Of chunks that are on disk, nothing is known: they are many."""
    if type(chunks) is bytes:
        return len(chunks)
    return sum(map(len, chunks)) if type(chunks) is list else 1 << 62


def _never_late(element: Any) -> bool:
    return False
