"""What wardens and tasks say of hosts to the driver, on a line to its leash, and what they hear.

A warden says its host's record and hears that it is welcome, later that the host is to close. In
the end it says how the host ended. Before that the driver may ask for a look, and hears a sight. If
there is a host of that name already, the warden hears of that one instead. A task may ask about a
host, and hears its record.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sparkdrain.hosts.executor import Executor
from sparkdrain.v1 import lines_pb2
from sparkdrain.wire import ControlMessage, sent_as

if TYPE_CHECKING:
    from sparkdrain.lines.line import Address, Endpoint

sent_as(lines_pb2.Executor)(Executor)


@sent_as(lines_pb2.HostId)
@dataclass(frozen=True, slots=True)
class HostId:
    """A slot of a job; at each time, at most one process hosts it."""

    job: str
    slot: int


@sent_as(lines_pb2.HostRecord)
@dataclass(frozen=True, slots=True)
class HostRecord:
    """A host as the driver knows it.

    Attributes:
        machine: the machine's name.
        pid: number of the process that runs the service.
        address: where tasks on other executors connect; None if there is one executor only.
        ended: how it ended; empty as long as it lives.
        executor: the one that it belongs to, if the cluster has several.
    """

    id: HostId
    machine: str
    pid: int
    address: Address | None
    ended: str = ""
    executor: Executor | None = None

    def __str__(self) -> str:
        where = f"process {self.pid} on {self.machine}"
        return f"{where}, which ended: {self.ended}" if self.ended else where


@sent_as(lines_pb2.Sight)
@dataclass(frozen=True, slots=True)
class Sight:
    """What a host is doing at one moment: a warden's answer to a look.

    Attributes:
        number: the question that it answers.
        seconds: how long the present call has taken, in seconds; None between two calls.
        told: what the service says of the call; None if no Python code runs in the host, because
            the call keeps the interpreter's lock, or the process is stopped.
        dump: without ``told``, the stack of the call as ``faulthandler`` writes it, or nothing.
        notes: without ``told``, what the service has noted down for this case.
    """

    number: int
    seconds: float | None
    told: bytes | None = None
    dump: str = ""
    notes: str = ""


@dataclass(frozen=True, slots=True)
class Seen:
    """A host, and what it is doing."""

    host: HostRecord
    sight: Sight


@sent_as(lines_pb2.Ask)
@dataclass(frozen=True, slots=True)
class Ask:
    """What is known of the latest host of this name?

    Attributes:
        ended_pid: a process that has just ended; the answer waits a moment for how it did.
        visits: the task is to go there, if there is one.
    """

    id: HostId
    ended_pid: int = 0
    visits: bool = False


@sent_as(lines_pb2.ToLeash)
@dataclass(frozen=True, slots=True)
class ToLeash(ControlMessage):
    """One of these.

    Attributes:
        record: a host that begins.
        ended: how the host ended, in words.
        ask: a task's question.
    """

    record: HostRecord | None = None
    sight: Sight | None = None
    ended: str | None = None
    ask: Ask | None = None


@sent_as(lines_pb2.FromLeash)
@dataclass(frozen=True, slots=True)
class FromLeash(ControlMessage):
    """One of these, or nothing: no host is known.

    Attributes:
        welcome: the driver knows the host from now on.
        record: the host that there is.
        close: the host is to tear down, and may take that many seconds.
        look: the number of a question: what is the host doing?
    """

    welcome: bool = False
    record: HostRecord | None = None
    close: float | None = None
    look: int | None = None


def ask(leash: Endpoint, question: Ask) -> HostRecord | None:
    """What the driver knows; nothing if it cannot be asked."""
    try:
        with leash.dial() as line:
            line.send(ToLeash(ask=question))
            return line.recv(FromLeash).record
    except Exception:  # noqa: BLE001 - the answer only makes a message better
        return None
