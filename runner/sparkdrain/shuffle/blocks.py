"""What travels between slots: blocks and end messages. The only place that frames them."""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

_HEADER = struct.Struct(">BHIII")
_END = struct.Struct(">QIQ")
_FRONTIER = struct.Struct(">Iq")
_DATA, _END_KIND, _REPORT = 1, 2, 3
HEADER_BYTES = _HEADER.size


@dataclass(frozen=True, slots=True)
class Block:
    """A run of encoded elements of ``edge``, from one shard to one shard."""

    level: int
    edge: int
    producer: int
    sequence: int
    payload: memoryview


@dataclass(frozen=True, slots=True)
class EndMessage:
    """The last record of a producer to a consumer: how much there was, and who sent it.

    ``attempt`` is drawn anew by every execution of the producer, so that two consumers that
    saw different executions of it can be told apart (the outputs of random user code differ).

    Attributes:
        frontiers: in streaming, the output frontier of every edge from the producer to the
            consumer's level, microseconds: no element that comes later on it is older.
    """

    level: int
    producer: int
    attempt: int
    blocks: int
    checksum: int
    frontiers: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Report:
    """What a slot tells the driver at the end of its task."""

    level: int
    producer: int
    payload: bytes


def encode_block(level: int, edge: int, producer: int, sequence: int, payload: bytes) -> bytes:
    """The wire form of a block."""
    return _HEADER.pack(_DATA, level, edge, producer, sequence) + payload


def encode_end(message: EndMessage) -> bytes:
    """The wire form of an end message."""
    parts = [
        _HEADER.pack(_END_KIND, message.level, 0, message.producer, 0),
        _END.pack(message.attempt, message.blocks, message.checksum),
    ]
    parts += [_FRONTIER.pack(edge, time) for edge, time in message.frontiers]
    return b"".join(parts)


def encode_report(level: int, producer: int, payload: bytes) -> bytes:
    """The wire form of a report."""
    return _HEADER.pack(_REPORT, level, 0, producer, 0) + payload


def decode(record: bytes) -> Block | EndMessage | Report:
    """The inverse of the three encoders.

    Raises:
        ValueError: the record is none of the three kinds.
    """
    kind, level, edge, producer, sequence = _HEADER.unpack_from(record)
    if kind == _DATA:
        return Block(level, edge, producer, sequence, memoryview(record)[HEADER_BYTES:])
    if kind == _END_KIND:
        attempt, blocks, checksum = _END.unpack_from(record, HEADER_BYTES)
        frontiers = tuple(_FRONTIER.iter_unpack(record[HEADER_BYTES + _END.size :]))
        return EndMessage(level, producer, attempt, blocks, checksum, frontiers)
    if kind == _REPORT:
        return Report(level, producer, record[HEADER_BYTES:])
    msg = f"unknown record kind {kind} in a shuffle block"
    raise ValueError(msg)


def reports_in(records: Iterable[bytes]) -> list[bytes]:
    """The payloads of the reports among ``records``."""
    return [message.payload for message in map(decode, records) if isinstance(message, Report)]


def chain_checksum(checksum: int, edge: int, sequence: int, size: int) -> int:
    """Add a block's identity to a checksum that does not depend on the order of arrival."""
    return (checksum + zlib.crc32(b"%d,%d,%d" % (edge, sequence, size))) & 0xFFFFFFFFFFFFFFFF
