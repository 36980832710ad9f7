"""Whether a master answers at its address: Spark itself would try for minutes, and then go on."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from sparkdrain.errors import BadSetup

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

_SECONDS: Final = 5.0
_PORTS: Final = {"https": 443, "http": 80}
_HADOOP: Final = ("HADOOP_CONF_DIR", "YARN_CONF_DIR")
_RESOURCE_MANAGER: Final = "spark.hadoop.yarn.resourcemanager."
_PROXIES: Final = ("HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY")


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
