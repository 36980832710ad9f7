"""Spark masters: which ones run tasks here, and which ones cannot be used.

Spark itself would try an address where no master answers for minutes, and then go on. A Spark
Connect session sends queries to a server. It has no SparkContext, so nothing of it can run slots.
"""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from sparkdrain.errors import BadSetup

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

_SECONDS: Final = 5.0
_PORTS: Final = {"https": 443, "http": 80}
_HADOOP: Final = ("HADOOP_CONF_DIR", "YARN_CONF_DIR")
_RESOURCE_MANAGER: Final = "spark.hadoop.yarn.resourcemanager."
_PROXIES: Final = ("HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY")
_SESSIONS: Final = "pyspark.sql.connect.session"
_REMEDY: Final = (
    "Jobs need a classic session, with a SparkContext in this process: name a master with "
    "--spark_master_url (local[*], spark://host:port, yarn, k8s://url), "
)


def runs_here(master: str) -> bool:
    """Whether tasks run in the driver's JVM, on this machine and with its files."""
    return master.startswith("local") and not master.startswith("local-cluster")


def connect(host: str, port: int) -> None:
    """Connect to a server, for nothing else; raises OSError if none answers."""
    socket.create_connection((host, port), _SECONDS).close()


def check_master(
    master: str,
    properties: Iterable[str],
    environ: Mapping[str, str],
    connect: Callable[[str, int], None] = connect,
) -> None:
    """Return if Spark will find its master, as far as that can be told at once.

    Args:
        master: what ``--spark_master_url`` says.
        properties: the names of the properties that the session is to have.
        connect: reaches a server or raises OSError.

    Raises:
        BadSetup: no master answers, or nothing says where it is; names the option.
    """
    kind, _, address = master.partition("://")
    if kind == "spark":
        reasons = _unreachable([f"spark://{each}" for each in address.split(",")], connect)
        if reasons:
            message = (
                f"No Spark master answers at --spark_master_url={master} ({reasons}). "
                "Start it, or correct the address: spark://host:port, as its own page shows it."
            )
            raise BadSetup(message)
    elif kind == "k8s" and not _has_proxy(environ):
        reasons = _unreachable([address if "://" in address else f"https://{address}"], connect)
        if reasons:
            message = (
                f"No Kubernetes API server answers at --spark_master_url={master} ({reasons}). "
                "Start it, or correct the address: k8s://https://host:port, as "
                "`kubectl cluster-info` shows it."
            )
            raise BadSetup(message)
    elif kind == "yarn" and not any(name.startswith(_RESOURCE_MANAGER) for name in properties):
        _check_hadoop(environ)


def _unreachable(urls: Iterable[str], connect: Callable[[str, int], None]) -> str:
    """Why no master answers at any of these addresses; empty if one does."""
    reasons = []
    for url in urls:
        try:
            parts = urlsplit(url)
            port = parts.port or _PORTS.get(parts.scheme)
            if not parts.hostname or port is None:
                message = "it is not host:port"
                raise ValueError(message)
            connect(parts.hostname, port)
        except (OSError, ValueError) as error:
            reasons.append(f"{url.partition('://')[2]}: {error}")
        else:
            return ""
    return "; ".join(reasons)


def _has_proxy(environ: Mapping[str, str]) -> bool:
    """Whether the client of Kubernetes may reach what this process cannot."""
    if any(environ.get(name) for name in _PROXIES):
        return True
    files = environ.get("KUBECONFIG") or os.path.join(environ.get("HOME", ""), ".kube", "config")
    return any("proxy-url" in _read(file) for file in files.split(os.pathsep))


def _read(file: str) -> str:
    try:
        return Path(file).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _check_hadoop(environ: Mapping[str, str]) -> None:
    given = {name: environ[name] for name in _HADOOP if environ.get(name)}
    folders = (Path(folder) for value in given.values() for folder in value.split(os.pathsep))
    if any(any(folder.glob("*-site.xml")) for folder in folders):
        return
    shown = " or ".join(f"{name}={value}" for name, value in given.items())
    found = f"{shown} has no *-site.xml" if given else f"neither {' nor '.join(_HADOOP)} is set"
    message = (
        f"--spark_master_url=yarn: where YARN is stands in Hadoop's configuration, but {found}. "
        f"Set {_HADOOP[0]} to the directory with the cluster's yarn-site.xml."
    )
    raise BadSetup(message)


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
