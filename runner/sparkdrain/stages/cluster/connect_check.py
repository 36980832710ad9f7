"""Whether a program uses Spark Connect, on which no job of this runner can run.

A Connect session sends queries to a server. It has no SparkContext, so nothing of it can run slots.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from sparkdrain.errors import BadSetup

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_SESSIONS: Final = "pyspark.sql.connect.session"
_REMEDY: Final = (
    "Jobs need a classic session, with a SparkContext in this process: name a master with "
    "--spark_master_url (local[*], spark://host:port, yarn, k8s://url), "
)


def check_classic(
    master: str | None,
    properties: Iterable[tuple[str, str]],
    environ: Mapping[str, str],
    modules: Mapping[str, Any],
) -> None:
    """Return if nothing asks for Spark Connect.

    Args:
        master: what ``--spark_master_url`` says.
        properties: what ``--spark_conf`` says.
        modules: the modules that are imported.

    Raises:
        BadSetup: names what asks for Spark Connect, and what to do instead.
    """
    if (master or "").startswith("sc://"):
        _refuse(
            f"--spark_master_url={master} is the address of a Spark Connect server", "not sc://"
        )
    for name, value in properties:
        if name == "spark.remote" or (name, value) == ("spark.api.mode", "connect"):
            _refuse(f"--spark_conf={name}={value} asks for Spark Connect", "and leave it out")
    if _has_session(modules):
        _refuse("The program has an active Spark Connect session", "and stop that session first")
    if environ.get("SPARK_REMOTE"):
        _refuse(f"SPARK_REMOTE={environ['SPARK_REMOTE']} asks for Spark Connect", "and unset it")
    if environ.get("SPARK_CONNECT_MODE_ENABLED") and not environ.get("SPARK_LOCAL_REMOTE"):
        # PySpark sets it with the first Connect session, and makes no SparkContext from then on.
        _refuse(
            "SPARK_CONNECT_MODE_ENABLED is set, by Spark Connect",
            "in a process that has had no Spark Connect session",
        )


def _has_session(modules: Mapping[str, Any]) -> bool:
    kind = getattr(modules.get(_SESSIONS), "SparkSession", None)
    return kind is not None and (
        getattr(kind, "_default_session", None) is not None
        or getattr(getattr(kind, "_active_session", None), "session", None) is not None
    )


def _refuse(cause: str, remedy: str) -> None:
    message = f"{cause}, which this runner cannot use. {_REMEDY}{remedy}."
    raise BadSetup(message)
