"""Whether Spark's own traffic between driver and executors is encrypted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from sparkdrain.lines.encrypted import Certificate

if TYPE_CHECKING:
    from collections.abc import Mapping

# Of Spark 4; and of all versions, with a secret: AES, and the older SASL.
_TLS = "spark.ssl.rpc.enabled"
_SECRET = "spark.authenticate"  # noqa: S105 - a name
_WITH_SECRET = ("spark.network.crypto.enabled", "spark.authenticate.enableSaslEncryption")


class Properties(Protocol):
    """What is asked of a SparkConf."""

    def get(self, key: str, /) -> str | None:
        """The value of a property; None if it is not set."""


def is_encrypted(conf: Properties | Mapping[str, str]) -> bool:
    """Whether Spark encrypts what driver and executors say to each other."""
    if _is_on(conf, _TLS):
        return True
    return _is_on(conf, _SECRET) and any(_is_on(conf, name) for name in _WITH_SECRET)


def certificate_for(conf: Properties | Mapping[str, str]) -> Certificate | None:
    """A new certificate for the project's own lines; None if Spark encrypts nothing.

    Raises:
        BadSetup: a certificate is needed and cannot be made.
    """
    return Certificate.make() if is_encrypted(conf) else None


def _is_on(conf: Properties | Mapping[str, str], name: str) -> bool:
    return (conf.get(name) or "").strip().lower() == "true"
