"""What ``sparkdrain server`` is told, checked."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from sparkdrain.server.security import Security, check_exposure

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sparkdrain.coordination.address import StoreAddress


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """How a server listens, and what it runs.

    Attributes:
        job_port: for the Job service; 0 for a free one.
        host: the address to listen at.
        artifact_port: for the artifact services alone; None: they are at ``job_port``.
        expansion_port: for the expansion service; None: there is none.
        max_jobs: how many jobs run at a time, at least 1.
        is_warm: whether a driver process waits with its session ready.
        directory: for staged files, and for the store; empty: one that goes with the server.
        store: where jobs are kept; None: a RocksDB database in ``directory``.
        spark_master_url: the Spark master of jobs that name none; None: as Spark is set up, else
            this machine.
        security: what clients are shown, and have to show.
        is_insecure: whether everybody who reaches the address may come in without.

    Raises:
        BadOption: see ``check_exposure``.
    """

    job_port: int = 8099
    host: str = "localhost"
    artifact_port: int | None = None
    expansion_port: int | None = None
    max_jobs: int = 1
    is_warm: bool = True
    directory: str = ""
    store: StoreAddress | None = None
    spark_master_url: str | None = None
    security: Security = field(default_factory=Security)
    is_insecure: bool = False

    def __post_init__(self) -> None:
        check_exposure(self.host, self.security, is_asked_for=self.is_insecure)

    @property
    def is_for_own_user(self) -> bool:
        """Whether, of the users of this machine, only the server's own may come in."""
        return not self.security.asks_clients and not self.is_insecure


_JOB_MB = 3000


def jobs_that_fit(cores: int, memory_mb: int) -> int:
    """How many jobs a machine runs at a time by default: each needs a core and 3 GB."""
    return max(1, min(cores, memory_mb // _JOB_MB))


def this_machine() -> tuple[int, int]:
    """The cores that this process may use, and the memory of the machine in MB."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return cores or 1, memory >> 20


def usual_directory(port: int, environ: Mapping[str, str]) -> str:
    """The directory of the server at a port; empty for a free port, which has none of its own."""
    if not port:
        return ""
    home = environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return str(Path(home) / "sparkdrain" / f"server-{port}")
