"""Sessions without executors: of drivers that wait until they lead."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from sparkdrain.stages.cluster.context import is_local, is_ours
from sparkdrain.stages.cluster.parked import is_parked, number
from sparkdrain.stages.spark.errors import JVM_LOST
from sparkdrain.stages.spark.session import end_executors, executor_summaries, request_executors

if TYPE_CHECKING:
    from pyspark import SparkContext


class ParkedExecutors:
    """The executors of a session that began without; of another session, nothing happens.

    A session that is lost meanwhile has none.
    """

    def __init__(self, context: SparkContext) -> None:
        self._context = context
        self._number = number(context.getConf())
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
            if ids := [one.id for one in executor_summaries(self._context)]:
                end_executors(self._context, ids)


def kept_executors(context: SparkContext) -> list[str]:
    """What a driver that waits keeps from the one that leads, in words."""
    if is_local(context) or is_parked(context.getConf()) or not any(executor_summaries(context)):
        return []
    return [
        "This driver waits, and its Spark session has executors all the while, which the driver "
        "that leads cannot use. Let the runner start the session (--spark_master_url), or see that "
        "the cluster has room for both."
    ]


def park_again(context: SparkContext) -> None:
    """Give executors back, after another driver has taken the lead; the next session is another."""
    if is_ours(context) and is_parked(context.getConf()):
        context.stop()
