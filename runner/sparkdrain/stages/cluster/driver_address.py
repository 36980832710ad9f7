"""Where the driver listens for its own executors, and whether it encrypts what it says to them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sparkdrain.errors import BadSetup
from sparkdrain.lines.encrypted import Certificate
from sparkdrain.lines.server import Bind, TcpBind, UnixBind
from sparkdrain.own_folder import own_folder
from sparkdrain.stages.cluster.masters import runs_here

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark import SparkConf, SparkContext

_THIS_MACHINE: Final = "127.0.0.1"
# Of Spark 4; and of all versions, with a secret: AES, and the older SASL.
_TLS = "spark.ssl.rpc.enabled"
_SECRET = "spark.authenticate"  # noqa: S105 - a name
_WITH_SECRET = ("spark.network.crypto.enabled", "spark.authenticate.enableSaslEncryption")


def driver_address(context: SparkContext) -> Bind:
    """Where the listeners of the driver bind.

    With a local master, that is a folder of this user only. On a cluster, the addresses are
    Spark's own: ``spark.driver.host``, and ``spark.driver.bindAddress`` where it differs. So a
    process that cannot reach Spark's driver cannot reach ours. Lines are encrypted if Spark's
    traffic is.

    Raises:
        BadSetup: no private folder can be made, or no certificate; says what to do.
    """
    if runs_here(context.master):
        try:
            return UnixBind(own_folder())
        except OSError as error:
            message = f"The workers cannot reach the driver: {error}."
            raise BadSetup(message) from error
    conf = context.getConf()
    host = conf.get("spark.driver.host") or _THIS_MACHINE
    interface = conf.get("spark.driver.bindAddress") or host
    return TcpBind(host, interface, certificate_for(conf))


def is_encrypted(conf: SparkConf | Mapping[str, str]) -> bool:
    """Whether Spark encrypts what driver and executors say to each other."""
    with_secret = _is_on(conf, _SECRET) and any(_is_on(conf, name) for name in _WITH_SECRET)
    return with_secret or _is_on(conf, _TLS)


def certificate_for(conf: SparkConf | Mapping[str, str]) -> Certificate | None:
    """A new certificate for the project's own lines; None if Spark encrypts nothing.

    Raises:
        BadSetup: a certificate is needed and cannot be made.
    """
    return Certificate.make() if is_encrypted(conf) else None


def _is_on(conf: SparkConf | Mapping[str, str], name: str) -> bool:
    return (conf.get(name) or "").strip().lower() == "true"
