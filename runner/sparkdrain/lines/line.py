"""A connection that carries messages, ``[size u32][bytes]``, and where to dial for one."""

from __future__ import annotations

import contextlib
import select
import socket
import threading
from dataclasses import dataclass
from multiprocessing.connection import answer_challenge, deliver_challenge
from struct import Struct
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar, cast

if TYPE_CHECKING:
    from collections.abc import Callable

    from sparkdrain.lines.encrypted import Certificate, Connection
    from sparkdrain.wire import ControlMessage

M = TypeVar("M", bound="ControlMessage")
_SIZE: Final = Struct(">I")
Address: TypeAlias = tuple[str, int] | str
"""Host and port of a TCP listener, or the path of a Unix socket."""

CONNECT_SECONDS: Final = 20.0
# Together: a machine that is silent for a minute and a half is gone.
_KEEPALIVE: Final = (
    ("TCP_KEEPIDLE", 30),
    ("TCP_KEEPALIVE", 30),
    ("TCP_KEEPINTVL", 10),
    ("TCP_KEEPCNT", 6),
)


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


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a process of the job listens; travels with the tasks.

    Attributes:
        address: what to connect to.
        key: both ends show that they know the key.
        certificate: both ends show it, and encrypt what they say; None to say it in clear.
    """

    address: Address
    key: bytes
    certificate: Certificate | None = None

    def __repr__(self) -> str:
        return self.address if isinstance(self.address, str) else "{}:{}".format(*self.address)

    def dial(self, seconds: float = CONNECT_SECONDS) -> Line:
        """A line on which both ends have shown that they know the key.

        Args:
            seconds: how long a TCP connection may take to come about.

        Raises:
            OSError: no process answers.
            EOFError: the process that listens is about to end.
            multiprocessing.AuthenticationError: a process of another job listens.
        """
        line = Line(_connected(self.address, seconds))
        try:
            if self.certificate is not None:
                line.encrypt(self.certificate, server=False)
            show_key(line, self.key)
        except BaseException:
            line.close()
            raise
        return line


def _connected(address: Address, seconds: float) -> socket.socket:
    if isinstance(address, str):
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connection.connect(address)
        except BaseException:
            connection.close()
            raise
        return connection
    connection = socket.create_connection(address, seconds)
    connection.settimeout(None)
    tune(connection)
    return connection


def tune(connection: socket.socket) -> None:
    """Let a TCP connection send at once, and end when the other machine is gone without a word."""
    if connection.family == socket.AF_UNIX:
        return
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEPALIVE:
        if hasattr(socket, name):
            with contextlib.suppress(OSError):
                connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


# They ask a connection of multiprocessing for nothing but messages.
_answer: Final = cast("Callable[[Any, bytes], None]", answer_challenge)
_challenge: Final = cast("Callable[[Any, bytes], None]", deliver_challenge)


def show_key(line: Line, key: bytes) -> None:
    """Show at the end that has dialled that it knows the key; let the other end show it too.

    Raises:
        Exception: the other end does not know the key, or is gone.
    """
    _answer(line, key)
    _challenge(line, key)


def ask_key(line: Line, key: bytes) -> None:
    """The other end of ``show_key``. Raises as it does."""
    _challenge(line, key)
    _answer(line, key)
