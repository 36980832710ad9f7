"""A connection that carries messages: ``[size u32][bytes]``."""

from __future__ import annotations

import contextlib
import select
import socket
import threading
from struct import Struct
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from sparkdrain.lines.certificate import Certificate
    from sparkdrain.lines.encrypted import Connection
    from sparkdrain.wire import ControlMessage

M = TypeVar("M", bound="ControlMessage")
_SIZE: Final = Struct(">I")


class Line:
    """Sends and receives messages. One thread may receive while others send.

    Args:
        connection: connected, and blocking. The line closes it.
    """

    def __init__(self, connection: socket.socket) -> None:
        self._connection: Connection | None = connection
        self._changing = threading.Lock()
        self._sending = threading.Lock()

    @property
    def connection(self) -> Connection:
        """The connection below.

        Raises:
            OSError: the line is closed.
        """
        if self._connection is None:
            message = "the line is closed"
            raise OSError(message)
        return self._connection

    def encrypt(self, certificate: Certificate, *, server: bool) -> None:
        """Encrypt all messages from now on; before the first message.

        Args:
            certificate: both ends must show it.
            server: whether the other end has dialled.

        Raises:
            OSError: the other end shows another certificate, or is gone.
        """
        with self._changing:
            plain = self.connection
            assert isinstance(plain, socket.socket), "it is encrypted already"
            self._connection = encrypted = certificate.wrap(plain, server=server)
        encrypted.handshake()

    def fileno(self) -> int:
        """The descriptor; a selector can wait for a message with it."""
        return self.connection.fileno()

    def send(self, message: ControlMessage) -> None:
        """Send a message of ``proto/``. Raises as ``send_bytes`` does."""
        self.send_bytes(message.encode())

    def recv(self, kind: type[M]) -> M:
        """The next message, which is of this kind. Raises as ``recv_bytes`` does."""
        return kind.decode(self.recv_bytes())

    def send_bytes(self, message: bytes) -> None:
        """Send a message.

        Raises:
            OSError: the connection is broken.
        """
        with self._sending:
            self.connection.sendall(_SIZE.pack(len(message)) + message)

    def recv_bytes(self, maxlength: int | None = None) -> bytes:
        """The next message.

        Args:
            maxlength: the longest message that is taken, in bytes.

        Raises:
            EOFError: the other end has closed the connection.
            OSError: the connection is broken, or the message is too long.
        """
        (size,) = _SIZE.unpack(self._exactly(_SIZE.size))
        if maxlength is not None and size > maxlength:
            message = f"a message of {size} bytes; at most {maxlength} bytes are taken here"
            raise OSError(message)
        return self._exactly(size)

    def _exactly(self, size: int) -> bytes:
        parts = []
        while size:
            part = self.connection.recv(size, socket.MSG_WAITALL)
            if not part:
                raise EOFError
            parts.append(part)
            size -= len(part)
        return b"".join(parts)

    def poll(self, seconds: float) -> bool:
        """Whether a message, or the end of the connection, comes within ``seconds``."""
        waiting = select.poll()
        waiting.register(self.connection, select.POLLIN)
        return bool(waiting.poll(1000 * seconds))

    def shut(self) -> None:
        """End the connection for both ends; a thread that waits for a message is woken."""
        with self._changing, contextlib.suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)

    def detach(self) -> Connection:
        """The connection, which this line closes no more."""
        connection, self._connection = self.connection, None
        return connection

    def close(self) -> None:
        """Close the connection. Idempotent."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def __enter__(self) -> Line:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
