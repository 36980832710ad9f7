"""What travels between slots: blocks and end messages. The only place that frames them."""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sparkdrain.drain.states import DrainMessage

if TYPE_CHECKING:
    from collections.abc import Iterable

_HEADER = struct.Struct(">BHIII")
_END = struct.Struct(">QIQI")
_FRONTIER = struct.Struct(">Iq")
_DRAIN = b"d"
_DATA, _END_KIND, _REPORT, _DATA_OF_DRAIN = 1, 2, 3, 4
HEADER_BYTES = _HEADER.size


@dataclass(frozen=True, slots=True)
class Block:
    """A run of encoded elements of ``edge``, from one shard to one shard.

    Attributes:
        of_drain: all of them are there because the job is drained, see ``drain.caused``.
    """

    level: int
    edge: int
    producer: int
    sequence: int
    payload: memoryview
    of_drain: bool = False


@dataclass(frozen=True, slots=True)
class EndMessage:
    """The last record of a producer to a consumer: how much there was, and who sent it.

    ``attempt`` is drawn anew by every execution of the producer, so that two consumers that
    saw different executions of it can be told apart (the outputs of random user code differ).

    Attributes:
        frontiers: in streaming, the output frontier of every edge from the producer to the
            consumer's level, microseconds: no element that comes later on it is older.
        drain: while a job is drained: on which of these edges nothing will come later.
    """

    level: int
    producer: int
    attempt: int
    blocks: int
    checksum: int
    frontiers: tuple[tuple[int, int], ...] = ()
    drain: DrainMessage | None = None


@dataclass(frozen=True, slots=True)
class Report:
    """What a slot tells the driver at the end of its task."""

    level: int
    producer: int
    payload: bytes


def encode_block(
    level: int, edge: int, producer: int, sequence: int, payload: bytes, *, of_drain: bool = False
) -> bytes:
    """The wire form of a block."""
    kind = _DATA_OF_DRAIN if of_drain else _DATA
    return _HEADER.pack(kind, level, edge, producer, sequence) + payload


def encode_end(message: EndMessage) -> bytes:
    """The wire form of an end message."""
    parts = [
        _HEADER.pack(_END_KIND, message.level, 0, message.producer, 0),
        _END.pack(message.attempt, message.blocks, message.checksum, len(message.frontiers)),
    ]
    parts += [_FRONTIER.pack(edge, time) for edge, time in message.frontiers]
    if message.drain is not None:
        parts += [_DRAIN, message.drain.encode()]
    return b"".join(parts)


def encode_report(level: int, producer: int, payload: bytes) -> bytes:
    """The wire form of a report."""
    return _HEADER.pack(_REPORT, level, 0, producer, 0) + payload


def decode(record: bytes) -> Block | EndMessage | Report:
    """The inverse of the encoders.

    Raises:
        ValueError: the record is of no known kind.
    """
    kind, level, edge, producer, sequence = _HEADER.unpack_from(record)
    if kind in (_DATA, _DATA_OF_DRAIN):
        payload = memoryview(record)[HEADER_BYTES:]
        return Block(level, edge, producer, sequence, payload, kind == _DATA_OF_DRAIN)
    if kind == _END_KIND:
        return _end(record, level, producer)
    if kind == _REPORT:
        return Report(level, producer, record[HEADER_BYTES:])
    msg = f"unknown record kind {kind} in a shuffle block"
    raise ValueError(msg)


def _end(record: bytes, level: int, producer: int) -> EndMessage:
    attempt, blocks, checksum, count = _END.unpack_from(record, HEADER_BYTES)
    start = HEADER_BYTES + _END.size
    end = start + count * _FRONTIER.size
    frontiers = tuple(_FRONTIER.iter_unpack(record[start:end]))
    drain = DrainMessage.decode(record[end + len(_DRAIN) :]) if len(record) > end else None
    return EndMessage(level, producer, attempt, blocks, checksum, frontiers, drain)


def reports_in(records: Iterable[bytes]) -> list[bytes]:
    """The payloads of the reports among ``records``."""
    return [message.payload for message in map(decode, records) if isinstance(message, Report)]


def chain_checksum(checksum: int, edge: int, sequence: int, size: int) -> int:
    """Add a block's identity to a checksum that does not depend on the order of arrival."""
    return (checksum + zlib.crc32(b"%d,%d,%d" % (edge, sequence, size))) & 0xFFFFFFFFFFFFFFFF
