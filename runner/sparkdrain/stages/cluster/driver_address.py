"""Where the driver listens for its own executors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sparkdrain.errors import BadSetup
from sparkdrain.lines.server import Bind, TcpBind, UnixBind
from sparkdrain.own_folder import own_folder
from sparkdrain.stages.cluster.context import is_local
from sparkdrain.stages.cluster.encryption import certificate_for

if TYPE_CHECKING:
    from pyspark import SparkContext

_THIS_MACHINE: Final = "127.0.0.1"


def driver_address(context: SparkContext) -> Bind:
    """Where the listeners of the driver bind.

    With a local master, that is a folder of this user only. On a cluster, the addresses are
    Spark's own: ``spark.driver.host``, and ``spark.driver.bindAddress`` where it differs. So a
    process that cannot reach Spark's driver cannot reach ours. Lines are encrypted if Spark's
    traffic is.

    Raises:
        BadSetup: no private folder can be made, or no certificate; says what to do.
    """
    if is_local(context):
        try:
            return UnixBind(own_folder())
        except OSError as error:
            message = f"The workers cannot reach the driver: {error}."
            raise BadSetup(message) from error
    conf = context.getConf()
    host = conf.get("spark.driver.host") or _THIS_MACHINE
    interface = conf.get("spark.driver.bindAddress") or host
    return TcpBind(host, interface, certificate_for(conf))
