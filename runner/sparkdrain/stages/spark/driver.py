"""The JVM of this process, as PySpark knows it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark import SparkConf, SparkContext
from pyspark.find_spark_home import _find_spark_home
from pyspark.java_gateway import launch_gateway

if TYPE_CHECKING:
    from collections.abc import Sequence


def has_jvm() -> bool:
    """Whether PySpark has a JVM already."""
    return SparkContext._gateway is not None


def launch(properties: Sequence[tuple[str, str]], start: dict[str, Any]) -> Any:
    """Start a JVM that PySpark does not use yet; PySpark's way to it.

    Args:
        properties: what must be known before it starts (its memory, its class path).
        start: arguments for ``subprocess.Popen``, to which PySpark adds.

    Raises:
        PySparkRuntimeError: it ended at once.
    """
    conf = SparkConf(loadDefaults=False)
    conf.setAll(list(properties))
    return launch_gateway(conf, start)


def use_jvm(gateway: Any) -> None:
    """Make a JVM that ``launch`` has started the JVM of this process."""
    SparkContext._ensure_initialized(gateway=gateway)


def jvm() -> Any:
    """The JVM of this process; there must be one."""
    return SparkContext._jvm


def spark_home() -> str:
    """The directory of the Spark whose scripts and jars this process uses."""
    return str(_find_spark_home())
