"""The names by which a host is known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sparkdrain.hosts.executor import Executor
    from sparkdrain.lines.line import Address


@dataclass(frozen=True, slots=True)
class HostId:
    """A slot of a job; at each time, at most one process hosts it."""

    job: str
    slot: int


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
