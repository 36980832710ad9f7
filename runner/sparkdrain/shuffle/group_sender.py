"""Sends tables of grouped values as blocks, each key to its slot."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from sparkdrain.notes import made_by
from sparkdrain.shuffle.grouped_blocks import cuts, encode_groups
from sparkdrain.shuffle.outbox import Outbox, SparkPartition

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sparkdrain.shuffle.keys import KeyEncode

# Elements may be large: the first tables tell.
_FIRST_LIMIT: Final = 1_000
_HIGHEST_LIMIT: Final = 500_000
_FLUSH_BYTES: Final = 16 << 20

Router = Callable[[list[bytes]], list[SparkPartition]]
"""Where each of some encoded keys goes."""


@dataclass(slots=True, eq=False)
class GroupSender:
    """Sends what a writer has collected.

    Attributes:
        encode_key: encodes keys that are not encoded yet.
        elements: how many were sent.
        limit: how many to collect before the next call.
    """

    edge: int
    encode_key: KeyEncode
    outbox: Outbox
    route: Router
    block_bytes: int
    elements: int = 0
    limit: int = _FIRST_LIMIT

    @property
    def maker(self) -> str:
        """The step that has made what is sent."""
        return self.outbox.producer(self.edge)

    def send(self, tables: Iterable[tuple[bytes, Iterable[Any], list[bytes]]], count: int) -> None:
        """Send ``count`` elements.

        Args:
            tables: section, keys (a tuple of one is a key that is encoded already), and the chunk
                of each.
            count: how many elements these are.
        """
        sent = self.outbox.sent_bytes
        for section, keys, chunks in tables:
            self._send(section, keys, chunks)
        sent = self.outbox.sent_bytes - sent
        self.elements += count
        if count:
            fitting = count * _FLUSH_BYTES // max(1, sent)
            self.limit = max(1, min(fitting, self.limit * 8, _HIGHEST_LIMIT))

    def _send(self, section: bytes, table: Iterable[Any], chunks: list[bytes]) -> None:
        encode = self.encode_key
        with made_by(self.maker):
            keys = [key[0] if type(key) is tuple else encode(key) for key in table]
        for partition, (some, theirs) in self._parts(keys, chunks).items():
            for start, end in cuts(theirs, self.block_bytes):
                payload = encode_groups(section, some[start:end], theirs[start:end])
                self.outbox.put(self.edge, partition, payload)

    def _parts(
        self, keys: list[bytes], chunks: list[bytes]
    ) -> dict[SparkPartition, tuple[list[bytes], list[bytes]]]:
        """Keys and chunks by where they go."""
        targets = self.route(keys)
        if targets and targets.count(targets[0]) == len(targets):
            return {targets[0]: (keys, chunks)}
        parts: dict[SparkPartition, tuple[list[bytes], list[bytes]]] = {
            target: ([], []) for target in dict.fromkeys(targets)
        }
        for key, chunk, target in zip(keys, chunks, targets, strict=True):
            part = parts[target]
            part[0].append(key)
            part[1].append(chunk)
        return parts
