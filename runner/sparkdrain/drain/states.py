"""Which producers have told a shard, in-band, that they are drained. Pure: no I/O.

Every producer of an edge tells every consumer, in its end message, on which edges it is drained: it
has sent everything, and nothing more can come from it in this run. An edge is drained when all of
its distinct producers have told so. The shard itself remembers between rounds what it was told.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sparkdrain.errors import SparkDrainError
from sparkdrain.v1 import drain_pb2
from sparkdrain.wire import ControlMessage, sent_as

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


@sent_as(drain_pb2.DrainMessage)
@dataclass(frozen=True, slots=True)
class DrainMessage(ControlMessage):
    """A producer is drained on some edges; travels in its end messages.

    Attributes:
        run_id: the run that is drained; messages of other runs mean nothing.
        edges: on which nothing more will come from it.
    """

    run_id: str
    producer: int
    edges: tuple[int, ...]


class UnexpectedProducer(SparkDrainError):
    """A drain message is from a slot that sends nothing on the edge: the plans do not agree."""


class DataAfterDrain(SparkDrainError):
    """A producer sent elements on an edge on which it had said that it was drained."""


@dataclass(slots=True)
class DrainStates:
    """The edges into a shard in one round.

    Attributes:
        producers: for each edge, how many slots send on it: 0 to n - 1.
        heard: (edge, producer): the producers that had told so when the round began.
        strangers: how many messages of other runs came.
    """

    run_id: str
    producers: Mapping[int, int]
    heard: frozenset[tuple[int, int]] = frozenset()
    strangers: int = 0
    _told: set[tuple[int, int]] = field(init=False)

    def __post_init__(self) -> None:
        self._told = set(self.heard)

    def update(self, message: DrainMessage) -> None:
        """Take a message; the same one again changes nothing.

        Raises:
            UnexpectedProducer: the edge is not known, or the slot does not send on it.
        """
        if message.run_id != self.run_id:
            self.strangers += 1
            return
        for edge in message.edges:
            if message.producer not in range(self.producers.get(edge, 0)):
                text = (
                    f"slot {message.producer} says that it is drained on edge {edge}, which "
                    f"{self.producers.get(edge, 0)} slots send to this shard"
                )
                raise UnexpectedProducer(text)
            self._told.add((edge, message.producer))

    def data(self, edge: int, producer: int) -> None:
        """Elements came.

        Raises:
            DataAfterDrain: the producer was drained on this edge before the round began.
        """
        if (edge, producer) in self.heard:
            text = f"slot {producer} sent elements on edge {edge} after its drain message"
            raise DataAfterDrain(text)

    @property
    def told(self) -> frozenset[tuple[int, int]]:
        """(edge, producer): the producers that have told so by now."""
        return frozenset(self._told)

    def missing(self, edges: Iterable[int]) -> dict[int, int]:
        """How many producers have not told so, for each of some edges where any have not."""
        counts = {edge: self.count([edge]) for edge in edges}
        return {edge: all_ - told for edge, (all_, told) in counts.items() if told < all_}

    def count(self, edges: Iterable[int]) -> tuple[int, int]:
        """How many producers some edges have, each counted for each of them, and how many told."""
        chosen = set(edges)
        told = sum(edge in chosen for edge, _ in self._told)
        return sum(self.producers.get(edge, 0) for edge in chosen), told

    def is_drained(self, edges: Iterable[int]) -> bool:
        """Whether nothing more can come on any of these edges; without edges nothing can."""
        expected, told = self.count(edges)
        return told == expected
