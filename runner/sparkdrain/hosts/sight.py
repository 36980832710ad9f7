"""What a host is doing at one moment, as its warden tells the driver."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sparkdrain.hosts.identity import HostRecord


@dataclass(frozen=True, slots=True)
class Sight:
    """A warden's answer to a look.

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
