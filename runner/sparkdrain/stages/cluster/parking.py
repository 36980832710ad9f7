"""Sessions without executors: of drivers that wait until they lead."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sparkdrain.stages.cluster.context import is_local, is_ours
from sparkdrain.stages.cluster.parked import is_parked, number
from sparkdrain.stages.spark.session import executor_summaries, request_executors

if TYPE_CHECKING:
    from pyspark import SparkContext


def summon_executors(context: SparkContext) -> None:
    """Ask for the executors of a session that began without, and keep them."""
    conf = context.getConf()
    if is_parked(conf):
        request_executors(context, number(conf))


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
