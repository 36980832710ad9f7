"""Sessions that begin without executors: of drivers that wait until they lead."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final

from sparkdrain.stages.cluster.masters import runs_here
from sparkdrain.stages.spark.errors import JVM_LOST
from sparkdrain.stages.spark.session import end_executors, registered_executors, request_executors

if TYPE_CHECKING:
    from pyspark import SparkConf, SparkContext

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


class ParkedExecutors:
    """The executors of a session that began without; of another session, nothing happens.

    A session that is lost meanwhile has none.
    """

    def __init__(self, context: SparkContext) -> None:
        self._context = context
        self._number = int(context.getConf().get(PARKED) or 0)
        self._are_wanted = self._were_wanted = False

    def summon(self) -> None:
        """Ask for all of them, and keep those that come."""
        if self._number and not self._are_wanted:
            self._are_wanted = self._were_wanted = True
            with contextlib.suppress(*JVM_LOST):
                request_executors(self._context, self._number)

    def dismiss(self) -> None:
        """Give back those that are there. Call it again: some may have been on their way."""
        if not self._were_wanted:
            return
        with contextlib.suppress(*JVM_LOST):
            if self._are_wanted:
                self._are_wanted = False
                request_executors(self._context, 0)
            if ids := [one.id for one, _ in registered_executors(self._context)]:
                end_executors(self._context, ids)


def kept_executors(context: SparkContext) -> list[str]:
    """What a driver that waits keeps from the one that leads, in words."""
    if (
        runs_here(context.master)
        or is_parked(context.getConf())
        or not any(registered_executors(context))
    ):
        return []
    return [
        "This driver waits, and its Spark session has executors all the while, which the driver "
        "that leads cannot use. Let the runner start the session (--spark_master_url), or see that "
        "the cluster has room for both."
    ]
