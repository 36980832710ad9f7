"""What wardens and tasks say to the driver, on a line to its leash.

A warden says its host's ``HostRecord`` and hears ``WELCOME``, later ``Close``; in the end it says
how the host ended, as text. Before that the driver may say ``LookRequest``, and hears a ``Sight``.
If there is a host of that name already, the warden hears of that one instead.
A task may ``Ask`` about a host.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from sparkdrain.hosts.identity import HostId, HostRecord
    from sparkdrain.lines.endpoint import Endpoint

WELCOME: Final = "welcome"


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


def ask(leash: Endpoint, question: Ask) -> HostRecord | None:
    """What the driver knows; nothing if it cannot be asked."""
    try:
        with leash.dial() as line:
            line.send(question)
            return line.recv()
    except Exception:  # noqa: BLE001 - the answer only makes a message better
        return None
