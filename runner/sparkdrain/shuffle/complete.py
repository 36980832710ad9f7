"""Has a shard seen all of its input? Pure: records in, a verdict out.

The end of an iterator means nothing: when a fetch fails, PySpark's worker sees an empty input
and goes on. Invariant: a shard may finish only after exactly one end message of every expected
producer, and with the blocks that those messages count.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sparkdrain.errors import TruncatedInput
from sparkdrain.shuffle.blocks import Block, EndMessage, chain_checksum, decode

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from sparkdrain.drain.states import DrainMessage

Producer = tuple[int, int]
"""Level and slot."""


@dataclass(slots=True)
class Completeness:
    """Counts what arrives from each expected producer until all is there."""

    expected: frozenset[Producer]
    _ends: dict[Producer, EndMessage] = field(default_factory=dict)
    _blocks: dict[Producer, int] = field(default_factory=dict)
    _checksums: dict[Producer, int] = field(default_factory=dict)

    def blocks(self, records: Iterable[bytes]) -> Iterator[Block]:
        """The blocks among what comes, all of which is counted.

        Raises:
            TruncatedInput: a producer ended twice.
        """
        for record in records:
            message = decode(record)
            if isinstance(message, EndMessage):
                key = (message.level, message.producer)
                if key in self._ends:
                    msg = f"slot {key[1]} of level {key[0]} ended twice"
                    raise TruncatedInput(msg)
                self._ends[key] = message
            elif isinstance(message, Block):
                self._count(message)
                yield message

    def _count(self, block: Block) -> None:
        key = (block.level, block.producer)
        self._blocks[key] = self._blocks.get(key, 0) + 1
        self._checksums[key] = chain_checksum(
            self._checksums.get(key, 0), block.edge, block.sequence, len(block.payload)
        )

    def frontiers(self) -> dict[int, int]:
        """The frontier of each edge: the least of those that its producers told."""
        least: dict[int, int] = {}
        for end in self._ends.values():
            for edge, time in end.frontiers:
                least[edge] = min(time, least.get(edge, time))
        return least

    def drains(self) -> list[DrainMessage]:
        """What producers have told of their being drained."""
        return [end.drain for end in self._ends.values() if end.drain is not None]

    def verify(self) -> dict[Producer, int]:
        """The attempt of each producer, all input being there.

        Raises:
            TruncatedInput: an end message or a block is missing, or one is too many.
        """
        missing = self.expected - self._ends.keys()
        strangers = (self._ends.keys() | self._blocks.keys()) - self.expected
        if missing or strangers:
            msg = (
                f"input is not complete: no end message from {sorted(missing)}, "
                f"unexpected records from {sorted(strangers)} (level, slot)"
            )
            raise TruncatedInput(msg)
        for key, end in self._ends.items():
            blocks, checksum = self._blocks.get(key, 0), self._checksums.get(key, 0)
            if (blocks, checksum) != (end.blocks, end.checksum):
                msg = (
                    f"slot {key[1]} of level {key[0]} sent {end.blocks} blocks, {blocks} arrived"
                    f"{' with other content' if blocks == end.blocks else ''}"
                )
                raise TruncatedInput(msg)
        return {key: end.attempt for key, end in self._ends.items()}


def agree(seen: Iterable[dict[Producer, int]]) -> None:
    """All consumers of a level must have read the same execution of every producer.

    Raises:
        TruncatedInput: two consumers saw different attempts of one producer, so that a part of
            a level was run again with outcomes that need not fit the rest.
    """
    attempts: dict[Producer, int] = {}
    for consumer in seen:
        for producer, attempt in consumer.items():
            if attempts.setdefault(producer, attempt) != attempt:
                msg = (
                    f"slot {producer[1]} of level {producer[0]} was run again after some of its "
                    "output had been used"
                )
                raise TruncatedInput(msg)


def one_of_each(told: Iterable[tuple[int, ...]], asked: Iterable[tuple[int, ...]]) -> None:
    """Each slot that was asked to run has told once that it did, and no other has.

    Args:
        told: for each report, what it is about; the level and the slot come last.
        asked: the same for each task.

    Raises:
        TruncatedInput: a report was lost, or a slot has run twice, or not now: what was sent may
            be of one time, and what is known of it of the other.
    """
    ran, wanted = Counter(told), Counter(asked)
    if ran != wanted:
        off = sorted({place[-2:] for place in (ran - wanted) + (wanted - ran)})
        levels = ", ".join(str(level) for level in sorted({level for level, _ in off}))
        slots = [slot for _, slot in off]
        message = (
            f"of slots {slots} of level {levels} there is not one report each: "
            f"{ran.total()} came for {wanted.total()} tasks"
        )
        raise TruncatedInput(message)
