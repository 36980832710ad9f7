"""What the name of a Spark master says."""

from __future__ import annotations


def runs_here(master: str) -> bool:
    """Whether tasks run in the driver's JVM, on this machine and with its files."""
    return master.startswith("local") and not master.startswith("local-cluster")
