"""The outgoing side of a shard: blocks with their targets, until Spark takes them."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, NewType

from sparkdrain.errors import TooLarge
from sparkdrain.shuffle.blocks import EndMessage, chain_checksum, encode_block, encode_end

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from sparkdrain.drain.states import DrainMessage

SparkPartition = NewType("SparkPartition", int)

LARGEST_BLOCK: Final = 1 << 30
"""Bytes. Spark takes records below 2 GiB, and a worker has an element in several copies."""


@dataclass(frozen=True, slots=True)
class ShuffleLayout:
    """Which Spark partition means what in the shuffle behind a level.

    First ``slots`` partitions for every level of the job, then one for reports, then the
    buckets of side inputs. The same for all levels, so that the shuffles of several levels
    can be read together, partition by partition.
    """

    slots: int
    levels: int
    side_buckets: int

    @property
    def partitions(self) -> int:
        """How many partitions there are."""
        return self.slots * self.levels + 1 + self.side_buckets

    @property
    def reports(self) -> SparkPartition:
        """Where reports go."""
        return SparkPartition(self.slots * self.levels)

    def shard(self, level: int, slot: int) -> SparkPartition:
        """Where the blocks for ``slot`` of ``level`` go."""
        return SparkPartition(level * self.slots + slot)

    def side(self, bucket: int) -> SparkPartition:
        """Where bucket ``bucket`` of all side inputs goes."""
        return SparkPartition(self.slots * self.levels + 1 + bucket)


@dataclass(slots=True)
class Outbox:
    """Sends the blocks of one task; numbers and counts them for its end messages."""

    layout: ShuffleLayout
    level: int
    slot: int
    attempt: int
    send: Callable[[SparkPartition, bytes], None]
    """Takes a record for a partition; may block until there is room."""
    sent_bytes: int = 0
    side_bytes: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    edges: set[int] = field(default_factory=set)
    """The edges on which something was sent."""
    names: dict[int, str] = field(default_factory=dict)
    """The transform whose output an edge carries, for people, by edge."""
    of_drain: bool = False
    """Whether what is put here is there because the job is drained."""
    _sequence: int = 0
    _blocks: dict[SparkPartition, int] = field(default_factory=lambda: defaultdict(int))
    _checksums: dict[SparkPartition, int] = field(default_factory=lambda: defaultdict(int))

    def put(self, edge: int, partition: SparkPartition, payload: bytes) -> None:
        """Send ``payload``.

        Raises:
            TooLarge: it is more than ``LARGEST_BLOCK``. Blocks are cut between elements, so an
                element is, or a few of them that were put together.
        """
        if len(payload) > LARGEST_BLOCK:
            raise TooLarge(_too_large(self.producer(edge), len(payload)))
        sequence = self._sequence
        self._sequence += 1
        self._blocks[partition] += 1
        self._checksums[partition] = chain_checksum(
            self._checksums[partition], edge, sequence, len(payload)
        )
        self.sent_bytes += len(payload)
        self.edges.add(edge)
        if partition > self.layout.reports:
            self.side_bytes[partition] += len(payload)
        block = encode_block(self.level, edge, self.slot, sequence, payload, of_drain=self.of_drain)
        self.send(partition, block)

    def producer(self, edge: int) -> str:
        """The transform whose output an edge carries, for people."""
        return self.names.get(edge, f"edge {edge}")

    def begin(self, attempt: int, send: Callable[[SparkPartition, bytes], None]) -> None:
        """Start over, for another task of the same slot and level."""
        self.attempt = attempt
        self.send = send
        self.of_drain = False
        self.sent_bytes = 0
        self.side_bytes.clear()
        self.edges.clear()
        self._sequence = 0
        self._blocks.clear()
        self._checksums.clear()

    def end(
        self,
        frontiers: Mapping[int, Sequence[tuple[int, int]]] | None = None,
        drain: DrainMessage | None = None,
    ) -> None:
        """Send one end message to every partition that a later level or the driver may read.

        Args:
            frontiers: in streaming, by level: the edges that go there, and their frontiers.
            drain: the edges on which the slot is drained, wherever they go.
        """
        layout = self.layout
        later = range(self.level + 1, layout.levels)
        shards = [layout.shard(level, slot) for level in later for slot in range(layout.slots)]
        sides = [layout.side(bucket) for bucket in range(layout.side_buckets)]
        for partition in shards + sides:
            if partition in self._blocks or partition < layout.reports:
                level = partition // layout.slots if partition < layout.reports else -1
                told = tuple(frontiers.get(level, ())) if frontiers else ()
                self.send(partition, encode_end(self._end(partition, told, drain)))

    def _end(
        self,
        partition: SparkPartition,
        frontiers: tuple[tuple[int, int], ...],
        drain: DrainMessage | None,
    ) -> EndMessage:
        here = {edge for edge, _ in frontiers}
        if drain is not None:
            drain = replace(drain, edges=tuple(edge for edge in drain.edges if edge in here))
        return EndMessage(
            self.level,
            self.slot,
            self.attempt,
            self._blocks[partition],
            self._checksums[partition],
            frontiers,
            drain,
        )


def _too_large(name: str, size: int) -> str:
    return (
        f"What {name!r} puts out cannot be shuffled: an element, or a few that follow each other, "
        f"takes {size / 2**30:.2f} GiB encoded, and the most is {LARGEST_BLOCK / 2**30:.0f} GiB. "
        "Write such data to a file and hand on its name, or make smaller elements of it."
    )
