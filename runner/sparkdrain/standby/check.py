"""Which jobs can have standby drivers. Pure."""

from __future__ import annotations

from sparkdrain.coordination.stores import StoreReach
from sparkdrain.errors import BadOption


def check_reach(reach: StoreReach, master: str | None) -> None:
    """Return if drivers that can run the job can all open its metadata store.

    Drivers of a local master may be on one machine: then they guard against the loss of a process.
    Drivers for a cluster are there for the loss of a machine.

    Args:
        reach: which drivers can open the store.
        master: Spark's master; None if it is not known yet.

    Raises:
        BadOption: the store cannot be opened by other drivers; names those that can.
    """
    wide = "zookeeper:, kafka: or azure:, or file: on NFS"
    if reach is StoreReach.PROCESS:
        message = (
            "--standby needs a metadata store that other drivers can open, and the one of this job "
            f"is in this process only. Give --metadata_store: {wide}; for drivers on one machine, "
            "file:/path."
        )
        raise BadOption(message)
    if reach is StoreReach.MACHINE and master is not None and not master.startswith("local"):
        message = (
            "--standby needs a metadata store that other machines can open, because the drivers of "
            f"{master} are to survive the loss of a machine, and --metadata_store is on this one "
            f"only. Give {wide}. On one machine, a local master may do with file:/path."
        )
        raise BadOption(message)


def check_signal(drain_on_signal: str) -> None:
    """Return if a signal stops one driver only.

    Raises:
        BadOption: it drains the job.
    """
    if drain_on_signal != "none":
        message = (
            f"--drain_on_signal={drain_on_signal} cannot be used with --standby: a signal stops "
            "one driver, and another goes on with the job. To drain it, use sparkdrain drain."
        )
        raise BadOption(message)
