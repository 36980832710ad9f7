"""Exchanges: elements move as they are, in blocks of runs that share their metadata.

A block is a sequence of runs ``[mode u8][count u32][metadata size u32][size u32]`` followed by
the metadata and the elements in nested coding. In a UNIFORM run all elements have the run's
timestamp, windows and pane; in a MIXED run each element carries its own.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from apache_beam.coders.coder_impl import create_OutputStream

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sparkdrain.shuffle.coding import ElementCoding
    from sparkdrain.shuffle.outbox import Outbox, SparkPartition

_RUN = struct.Struct(">BIII")
_COUNT = struct.Struct(">i")
_UNIFORM, _MIXED = 0, 1
# Runs shorter than this do not pay for their header; a writer that meets one stops making them.
_SHORT_RUN = 8
_LONGEST_TURN = 512


@dataclass(slots=True, eq=False)
class _Buffer:
    """The runs collected for one target."""

    partition: SparkPartition
    runs: list[bytes] = field(default_factory=list)
    size: int = 0
    stream: Any = field(default_factory=create_OutputStream)
    count: int = 0
    context: Any = None


class ElementWriter:
    """Writes the elements of one edge to one or several targets in turn.

    Args:
        targets: the partitions; with several, elements are dealt out: one each at first (so
            that few elements, each expensive, still spread), then in longer and longer turns.
        block_bytes: the size at which a target's block leaves.
    """

    def __init__(
        self,
        edge: int,
        coding: ElementCoding,
        outbox: Outbox,
        targets: list[SparkPartition],
        block_bytes: int,
    ) -> None:
        self._edge = edge
        self._coding = coding
        self._outbox = outbox
        self._buffers = [_Buffer(partition) for partition in targets]
        self._block_bytes = block_bytes
        self._mixed = False
        self._short_runs = 0
        self._position = outbox.slot % len(targets)
        self._turn = 1
        self._turns = 0
        self._left = self._turn
        self.elements = 0
        self._use(self._buffers[self._position])

    def _use(self, buffer: _Buffer) -> None:
        self._buffer = buffer
        self._stream = buffer.stream
        self._context = buffer.context

    def write(self, value: Any, context: Any) -> None:
        """Append an element; ``context`` carries timestamp, windows and pane of it."""
        if context is not self._context:
            self._switch_context(context)
        if self._mixed:
            self._coding.windowed.encode_to_stream(context.with_value(value), self._stream, True)
        else:
            self._coding.value.encode_to_stream(value, self._stream, True)
        self._buffer.count += 1
        self._left -= 1
        if self._left <= 0:
            self._end_turn()

    def write_encoded(self, elements: list[bytes], context: Any) -> None:
        """Append elements that share their metadata, given in nested coding."""
        position = 0
        while position < len(elements):
            if context is not self._context:
                self._switch_context(context)
            some = elements[position : position + self._left]
            if self._mixed:
                metadata = self._coding.metadata.encode(context.with_value(b""))
                some = [metadata + element for element in some]
            self._stream.write(b"".join(some))
            self._buffer.count += len(some)
            self._left -= len(some)
            position += len(some)
            if self._left <= 0:
                self._end_turn()

    def _switch_context(self, context: Any) -> None:
        buffer = self._buffer
        known = buffer.context
        if not self._mixed and not (
            known is not None
            and known.timestamp == context.timestamp
            and known.windows == context.windows
            and known.pane_info == context.pane_info
        ):
            self._short_runs += 0 < buffer.count < _SHORT_RUN
            if self._short_runs > _SHORT_RUN:
                for other in self._buffers:
                    self._close_run(other)
                self._mixed = True
            else:
                self._close_run(buffer)
        buffer.context = self._context = context

    def _end_turn(self) -> None:
        buffer = self._buffer
        self.elements += self._turn
        size = buffer.size + buffer.stream.size()
        self._turns += 1
        if self._turns % (4 * len(self._buffers)) == 0:
            # Elements may be large: look often enough not to overshoot the block size much.
            fitting = self._block_bytes * max(1, buffer.count) // max(1, size)
            self._turn = max(1, min(self._turn * 2, fitting, _LONGEST_TURN))
        if size >= self._block_bytes:
            self._send(buffer)
        if len(self._buffers) > 1:
            self._position = (self._position + 1) % len(self._buffers)
            self._use(self._buffers[self._position])
        self._left = self._turn

    def _close_run(self, buffer: _Buffer) -> None:
        if not buffer.count:
            return
        elements = buffer.stream.get()
        metadata = (
            b"" if self._mixed else self._coding.metadata.encode(buffer.context.with_value(b""))
        )
        mode = _MIXED if self._mixed else _UNIFORM
        run = _RUN.pack(mode, buffer.count, len(metadata), len(elements)) + metadata + elements
        buffer.runs.append(run)
        buffer.size += len(run)
        buffer.count = 0
        # A stream cannot be emptied.
        buffer.stream = create_OutputStream()
        if buffer is self._buffer:
            self._stream = buffer.stream

    def _send(self, buffer: _Buffer) -> None:
        self._close_run(buffer)
        if buffer.runs:
            self._outbox.put(self._edge, buffer.partition, b"".join(buffer.runs))
            buffer.runs = []
            buffer.size = 0

    def flush(self) -> None:
        """Send all that is left."""
        self.elements += self._turn - self._left
        self._left = self._turn
        for buffer in self._buffers:
            self._send(buffer)


def mixed_run(elements: list[Any], coding: ElementCoding) -> bytes:
    """A block of one run with ``elements``, which are windowed values."""
    encoded = coding.windowed_values.encode(elements)[_COUNT.size :]
    return _RUN.pack(_MIXED, len(elements), 0, len(encoded)) + encoded


def cut_runs(payload: memoryview, coding: ElementCoding) -> Iterator[tuple[Any, int, memoryview]]:
    """The runs of a block, each a block of its own: shared metadata or None, count, run."""
    position = 0
    while position < len(payload):
        start = position
        mode, count, metadata_size, size = _RUN.unpack_from(payload, position)
        position += _RUN.size
        metadata = bytes(payload[position : position + metadata_size])
        position += metadata_size + size
        context = coding.metadata.decode(metadata) if mode == _UNIFORM else None
        yield context, count, payload[start:position]


def read_runs(payload: memoryview, coding: ElementCoding) -> Iterator[tuple[Any, list[Any]]]:
    """The runs of a block: ``(context, values)`` with shared metadata, or ``(None, elements)``.

    In the second form the elements are windowed values.
    """
    position = 0
    while position < len(payload):
        mode, count, metadata_size, size = _RUN.unpack_from(payload, position)
        position += _RUN.size
        metadata = payload[position : position + metadata_size]
        position += metadata_size
        elements = _COUNT.pack(count) + payload[position : position + size]
        position += size
        if mode == _UNIFORM:
            yield coding.metadata.decode(bytes(metadata)), coding.values.decode(elements)
        else:
            yield None, coding.windowed_values.decode(elements)
