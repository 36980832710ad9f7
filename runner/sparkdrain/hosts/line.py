"""Connections between the machines of a job: how they are opened, and what is said to the driver.

A warden says its host's ``HostRecord`` and hears ``WELCOME``, later ``Close``; in the end it says
how the host ended, as text. Before that the driver may say ``Look``, and hears a ``Sight``. If
there is a host of that name already, the warden hears of that one instead.
A task may ``Ask`` about a host.
"""

from __future__ import annotations

import contextlib
import os
import socket
from dataclasses import dataclass
from multiprocessing.connection import Connection, answer_challenge, deliver_challenge
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from sparkdrain.door import Door
    from sparkdrain.hosts.identity import HostId, HostRecord

WELCOME: Final = "welcome"
_CONNECT_SECONDS: Final = 20.0
# Together: a machine that is silent for a minute and a half is gone.
_KEEPALIVE: Final = (
    ("TCP_KEEPIDLE", 30),
    ("TCP_KEEPALIVE", 30),
    ("TCP_KEEPINTVL", 10),
    ("TCP_KEEPCNT", 6),
)


@dataclass(frozen=True, slots=True)
class Address:
    """Where a job's leash is held; travels with the tasks."""

    host: str
    port: int
    key: bytes

    def __repr__(self) -> str:
        return f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Close:
    """Said to a warden: the host is to tear down, and may take that long."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Ask:
    """Said by a task: what is known of the latest host of this name?

    Attributes:
        id: whose.
        ended_pid: a process that has just ended; the answer waits a moment for how it did.
        visits: the task is to go there, if there is one.
    """

    id: HostId
    ended_pid: int = 0
    visits: bool = False


def keep_alive(connection: socket.socket) -> None:
    """Let the connection end when the other machine is gone without a word."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEPALIVE:
        if hasattr(socket, name):
            with contextlib.suppress(OSError):
                connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def dial(address: Address) -> Connection:
    """A line to the driver, on which both sides have shown that they know the key.

    Raises:
        OSError: nobody answers.
        EOFError: the driver is about to end.
        multiprocessing.AuthenticationError: it is the leash of another job.
    """
    connected = socket.create_connection((address.host, address.port), _CONNECT_SECONDS)
    connected.settimeout(None)
    keep_alive(connected)
    line = Connection(connected.detach())
    try:
        answer_challenge(line, address.key)
        deliver_challenge(line, address.key)
    except BaseException:
        line.close()
        raise
    return line


def dial_host(address: tuple[str, int], key: bytes) -> socket.socket:
    """A connection to a host on another executor, when that has time. Raises as ``dial`` does."""
    with dial(Address(*address, key)) as line:
        connected = socket.socket(fileno=os.dup(line.fileno()))
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connected


def admit(connected: socket.socket, door: Door) -> socket.socket | None:
    """The other end of ``dial_host``; nothing for a stranger. Takes ``connected`` over.

    Blocks, as ``Door.admits`` does.
    """
    keep_alive(connected)
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    with Connection(connected.detach()) as line:
        return socket.socket(fileno=os.dup(line.fileno())) if door.admits(line) else None


def ask(address: Address, question: Ask) -> HostRecord | None:
    """What the driver knows; nothing if it cannot be asked."""
    try:
        with dial(address) as line:
            line.send(question)
            return line.recv()
    except Exception:  # noqa: BLE001 - the answer only makes a message better
        return None
