"""What goes through the socket between a task and a host: frames of tagged records.

``[kind u8][count u32][size u64][(tag i64, size i64) * count][record bytes * count]``, in the
machine's own byte order: both ends are on one machine. Small records share a frame, so that a
record costs no system call; a large one is a frame of its own and is not copied.
"""

from __future__ import annotations

import socket
from array import array
from enum import IntEnum
from struct import Struct
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sparkdrain.lines.encrypted import Connection

_HEAD: Final = Struct("=BIQ")
_TABLE_ENTRY_BYTES: Final = 16
_FRAME_BYTES: Final = 256 << 10
_FRAME_RECORDS: Final = 8 << 10
_LARGE_BYTES: Final = 32 << 10
_SOCKET_BYTES: Final = 1 << 20
_NOTHING: Final = array("q")


class FrameKind(IntEnum):
    """What a frame is. A call: HELLO back, REQUEST, RECORDS and END; RECORDS and DONE back."""

    HELLO = 0
    REQUEST = 1
    RECORDS = 2
    END = 3
    DONE = 4
    FAILED = 5


class ConnectionEnded(Exception):
    """The other side is gone."""


def sender(connection: Connection) -> Callable[[bytes], None]:
    """A function that sends all of some bytes, or raises ``ConnectionEnded``.

    It asks for buffers that hold a frame or more; TCP sizes its own.
    """
    if connection.family == socket.AF_UNIX:
        assert isinstance(connection, socket.socket)
        for buffer in (socket.SO_SNDBUF, socket.SO_RCVBUF):
            connection.setsockopt(socket.SOL_SOCKET, buffer, _SOCKET_BYTES)

    def send(data: bytes) -> None:
        try:
            connection.sendall(data)
        except OSError as error:
            raise ConnectionEnded from error

    return send


class FrameWriter:
    """Sends records, several in a frame; ``send`` takes the bytes."""

    def __init__(self, send: Callable[[bytes], None]) -> None:
        self._send = send
        self._table = array("q")
        self._records: list[bytes] = []
        self._size = 0

    def add(self, tag: int, record: bytes) -> None:
        """Send a record, now or with later ones."""
        size = len(record)
        if size >= _LARGE_BYTES:
            self.flush()
            table = array("q", (tag, size)).tobytes()
            self._send(_HEAD.pack(FrameKind.RECORDS, 1, size) + table)
            self._send(record)
            return
        self._table.append(tag)
        self._table.append(size)
        self._records.append(record)
        self._size += size
        if self._size >= _FRAME_BYTES or len(self._records) >= _FRAME_RECORDS:
            self.flush()

    def flush(self) -> None:
        """Send what waits for more."""
        if self._records:
            head = _HEAD.pack(FrameKind.RECORDS, len(self._records), self._size)
            self._send(b"".join([head, self._table.tobytes(), *self._records]))
            self._table = array("q")
            self._records = []
            self._size = 0

    def tell(self, kind: FrameKind, payload: bytes = b"") -> None:
        """Send a frame that carries no records, after all that was added."""
        self.flush()
        self._send(_HEAD.pack(kind, 0, len(payload)) + payload)


class FrameReader:
    """Receives frames."""

    def __init__(self, connection: Connection) -> None:
        self._receive = connection.recv

    def frame(self) -> tuple[FrameKind, array[int], bytes]:
        """The next frame: its kind, its (tag, size) table flattened, and its payload.

        Raises:
            ConnectionEnded: there is none.
        """
        kind, count, size = _HEAD.unpack(self._exactly(_HEAD.size))
        table = _NOTHING
        if count:
            table = array("q")
            table.frombytes(self._exactly(count * _TABLE_ENTRY_BYTES))
        return FrameKind(kind), table, self._exactly(size) if size else b""

    def payload(self, kind: FrameKind) -> bytes:
        """The payload of the next frame, which is of this kind.

        Raises:
            ConnectionEnded: there is none.
        """
        found, _, payload = self.frame()
        if found is not kind:
            message = f"{kind.name} was to come, but {found.name} came"
            raise AssertionError(message)
        return payload

    def _exactly(self, size: int) -> bytes:
        try:
            data = self._receive(size, socket.MSG_WAITALL)
            if len(data) == size:
                return data
            parts = [data]
            missing = size - len(data)
            # A signal can end the wait for all of it.
            while missing:
                if not parts[-1]:
                    raise ConnectionEnded
                parts.append(self._receive(missing, socket.MSG_WAITALL))
                missing -= len(parts[-1])
        except OSError as error:
            raise ConnectionEnded from error
        return b"".join(parts)


def records_of(table: array[int], payload: bytes) -> Iterator[tuple[int, bytes]]:
    """The (tag, record) pairs of a frame."""
    if len(table) == 2:
        yield table[0], payload
        return
    position = 0
    numbers = iter(table)
    for tag, size in zip(numbers, numbers, strict=True):
        end = position + size
        yield tag, payload[position:end]
        position = end
