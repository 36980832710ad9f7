"""Where the driver listens for its own executors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sparkdrain.errors import BadSetup
from sparkdrain.lines.bind import Bind, TcpBind, UnixBind
from sparkdrain.own_folder import own_folder
from sparkdrain.stages.cluster import is_local

if TYPE_CHECKING:
    from pyspark import SparkContext

_THIS_MACHINE: Final = "127.0.0.1"


def driver_address(context: SparkContext) -> Bind:
    """Where the listeners of the driver bind.

    With a local master, that is a folder of this user only. On a cluster, the addresses are
    Spark's own: ``spark.driver.host``, and ``spark.driver.bindAddress`` where it differs. So a
    process that cannot reach Spark's driver cannot reach ours.

    Raises:
        BadSetup: no private folder can be made; says what was tried.
    """
    if is_local(context):
        try:
            return UnixBind(own_folder())
        except OSError as error:
            message = f"The workers cannot reach the driver: {error}."
            raise BadSetup(message) from error
    conf = context.getConf()
    host = conf.get("spark.driver.host") or _THIS_MACHINE
    return TcpBind(host, conf.get("spark.driver.bindAddress") or host)
