"""Where a process of the job listens, and how another one dials it."""

from __future__ import annotations

import contextlib
import socket
from dataclasses import dataclass
from multiprocessing.connection import answer_challenge, deliver_challenge
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

from sparkdrain.lines.line import Line

if TYPE_CHECKING:
    from collections.abc import Callable

    from sparkdrain.lines.certificate import Certificate

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
