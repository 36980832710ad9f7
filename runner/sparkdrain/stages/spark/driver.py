"""The JVM of this process, as PySpark knows it."""

from __future__ import annotations

import tempfile
import threading
from contextlib import contextmanager
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

from pyspark import SparkConf, SparkContext, java_gateway
from pyspark.find_spark_home import _find_spark_home
from pyspark.java_gateway import launch_gateway

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_LOCK: Final = threading.Lock()


def has_jvm() -> bool:
    """Whether PySpark has a JVM already."""
    return SparkContext._gateway is not None


def launch(
    properties: Sequence[tuple[str, str]], start: dict[str, Any], folder: str | None = None
) -> Any:
    """Start a JVM that PySpark does not use yet; PySpark's way to it.

    Args:
        properties: what must be known before it starts (its memory, its class path).
        start: arguments for ``subprocess.Popen``, to which PySpark adds.
        folder: where PySpark makes the file by which the JVM tells its port and its secret; None
            for the folder for temporary files.

    Raises:
        PySparkRuntimeError: it ended at once.
    """
    conf = SparkConf(loadDefaults=False)
    conf.setAll(list(properties))
    with _LOCK, _temporary_files_in(folder):
        return launch_gateway(conf, start)


@contextmanager
def _temporary_files_in(folder: str | None) -> Iterator[None]:
    """Have PySpark make its temporary files in ``folder``.

    PySpark has no setting for that, and leaves the files if this process is killed.
    """
    usual = java_gateway.tempfile
    java_gateway.tempfile = SimpleNamespace(
        mkdtemp=partial(tempfile.mkdtemp, dir=folder), mkstemp=tempfile.mkstemp
    )
    try:
        yield
    finally:
        java_gateway.tempfile = usual


def use_jvm(gateway: Any) -> None:
    """Make a JVM that ``launch`` has started the JVM of this process."""
    SparkContext._ensure_initialized(gateway=gateway)


def spark_home() -> str:
    """The directory of the Spark whose scripts and jars this process uses."""
    return str(_find_spark_home())


def remove_at_its_end(folder: str) -> None:
    """Have the JVM remove ``folder`` when it ends in good order, as it does with Spark's own."""
    jvm = SparkContext._jvm
    jvm.org.apache.spark.util.ShutdownHookManager.registerShutdownDeleteDir(
        jvm.java.io.File(folder)
    )
