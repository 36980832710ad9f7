"""Versions of Spark at work: of PySpark, of the jars that it starts, of a standalone master."""

from __future__ import annotations

import contextlib
import re
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyspark
from py4j.protocol import Py4JError
from pyspark import SparkContext

if TYPE_CHECKING:
    from pyspark import SparkConf

_CORE: Final = re.compile(r"spark-core_[\d.]+-(\d+\.\d+\.\d+[^/]*)\.jar")
_TIMEOUTS: Final = ("spark.rpc.askTimeout", "spark.rpc.lookupTimeout")
_RPC_SECONDS: Final = 10
_PAGE_SECONDS: Final = 3.0
_PAGE_BYTES: Final = 1 << 16
# Classes of one version of Spark are written and read by those of another.
_FOREIGN: Final = re.compile(
    r"\b(InvalidClassException|ClassNotFoundException|StreamCorruptedException|"
    r"NoClassDefFoundError|NoSuchMethodError|IncompatibleClassChangeError)\b"
)
_VERSION: Final = re.compile(r'class="version[^"]*"[^>]*>\s*(\d[^<\s]*)')


def pyspark_version() -> str:
    """The version of the Python package."""
    return str(pyspark.__version__)


def knows_setting(name: str) -> bool:
    """Whether this PySpark's own code reads a setting when it makes a context."""
    return name in SparkContext._do_init.__code__.co_consts


def home_version(home: str) -> str | None:
    """The version of the jars in a Spark's home; None if they are not where releases have them."""
    for jar in Path(home, "jars").glob("spark-core_*.jar"):
        if found := _CORE.fullmatch(jar.name):
            return found[1]
    return None


class ForeignMaster(Exception):
    """The master and this Spark do not understand each other; names Java's error."""


def version_of_master(conf: SparkConf, host: str, port: int) -> str | None:
    """The version of the standalone master at ``host`` and ``port``, asked in Spark's protocol.

    Messages of one version of Spark are unreadable to another, or they are understood and what
    comes later is not. So a message is sent first, which asks for the port of the master's pages,
    and these name the version.

    Args:
        conf: what the session is to have; decides on encryption and secrets.
        host: the master's host.
        port: the master's port.

    Returns:
        The version; None if the master does not answer, or has no page for this process.

    Raises:
        ForeignMaster: the master cannot read the message.
    """
    try:
        page = _page_port(conf, host, port)
    except Py4JError as error:
        found = _FOREIGN.search(str(error))
        if found is None:
            return None  # Spark tells better what is wrong
        raise ForeignMaster(found[1]) from error
    return version_in(_page(host, page))


def version_in(page: str) -> str | None:
    """The version that a page of a Spark master or worker shows."""
    found = _VERSION.search(page)
    return None if found is None else found[1]


def _page_port(conf: SparkConf, host: str, port: int) -> int:
    spark = SparkContext._jvm.org.apache.spark
    own = conf._jconf.clone()
    for name in _TIMEOUTS:
        own.set(name, f"{_RPC_SECONDS}s")
    no_key = SparkContext._jvm.scala.Option.empty()
    secrets = spark.SecurityManager(
        own, no_key, _scala_object(spark.internal.config, "package").AUTH_SECRET_FILE()
    )
    environment = spark.rpc.RpcEnv.create("versions", "localhost", 0, own, secrets, True)
    try:
        master = environment.setupEndpointRef(spark.rpc.RpcAddress(host, port), "Master")
        question = _scala_object(spark.deploy.master, "MasterMessages$BoundPortsRequest")
        any_ref = SparkContext._jvm.scala.reflect.ClassTag.AnyRef()
        return int(master.askSync(question, any_ref).webUIPort())
    finally:
        environment.shutdown()


def _scala_object(package: Any, name: str) -> Any:
    return getattr(getattr(package, f"{name}$"), "MODULE$")


def _page(host: str, port: int) -> str:
    """The beginning of a page; nothing if it cannot be had without a key or a login."""
    connection = HTTPConnection(host, port, timeout=_PAGE_SECONDS)
    with contextlib.closing(connection), contextlib.suppress(OSError, HTTPException):
        connection.request("GET", "/")
        return connection.getresponse().read(_PAGE_BYTES).decode("utf-8", "replace")
    return ""
