"""How a session is told to begin without executors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sparkdrain.stages.cluster.masters import runs_here

if TYPE_CHECKING:
    from pyspark import SparkConf

PARKED: Final = "spark.sparkdrain.parked"
"""A property of our own sessions that begin without executors: how many they get when they lead."""

_INSTANCES: Final = "spark.executor.instances"
_DYNAMIC: Final = "spark.dynamicAllocation.enabled"
_BEGIN_WITHOUT: Final = {
    _DYNAMIC: "true",
    "spark.dynamicAllocation.minExecutors": "0",
    "spark.dynamicAllocation.initialExecutors": "0",
    # Asked for by Spark where there is no shuffle service; nothing comes of it.
    "spark.dynamicAllocation.shuffleTracking.enabled": "true",
}
_USUAL: Final = 2
"""Executors that YARN and Kubernetes give to a session that names no number."""
_ALL: Final = 10_000
"""More than a standalone master has: it gives one of each worker, or as many as cores allow."""


def park(conf: SparkConf, master: str) -> None:
    """Have a session begin without executors, unless the user lets Spark decide all the time.

    Spark itself has only one way to begin without: as if it decided by itself. ``ParkedExecutors``
    ends that.
    """
    if runs_here(master) or conf.get(_DYNAMIC, "false") == "true":
        return
    usual = _ALL if master.startswith(("spark://", "local-cluster")) else _USUAL
    conf.set(PARKED, conf.get(_INSTANCES) or str(usual))
    for name, value in _BEGIN_WITHOUT.items():
        conf.set(name, value)
    conf.set(_INSTANCES, "0")


def is_parked(conf: SparkConf) -> bool:
    """Whether a session began without executors, for this reason."""
    return conf.get(PARKED) is not None


def expected(conf: SparkConf) -> str | None:
    """How many executors the user has asked for, if that was said."""
    number = conf.get(PARKED) or conf.get(_INSTANCES)
    return None if number in {None, str(_ALL)} else number


def number(conf: SparkConf) -> int:
    """How many executors a parked session is to have when its driver leads; 0 of other sessions."""
    return int(conf.get(PARKED) or 0)
