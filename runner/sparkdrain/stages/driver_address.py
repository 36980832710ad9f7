"""Where the driver listens for its own executors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sparkdrain.stages.cluster import is_local

if TYPE_CHECKING:
    from pyspark import SparkContext

_THIS_MACHINE: Final = "127.0.0.1"


def driver_address(context: SparkContext) -> tuple[str, str]:
    """The address at which executors reach the driver, and the one at which it is to listen.

    Both are Spark's own: ``spark.driver.host``, and ``spark.driver.bindAddress`` where it differs.
    So who cannot reach Spark's driver cannot reach ours. With a local master, nobody but this
    machine can.
    """
    if is_local(context):
        return _THIS_MACHINE, _THIS_MACHINE
    conf = context.getConf()
    host = conf.get("spark.driver.host") or _THIS_MACHINE
    return host, conf.get("spark.driver.bindAddress") or host
