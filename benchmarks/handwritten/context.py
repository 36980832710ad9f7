"""The Spark that the hand-written jobs run on."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pyspark import SparkConf, SparkContext

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def spark_context(master: str) -> Iterator[SparkContext]:
    """A context with the fast path between JVM and Python: Unix domain sockets."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    conf = (
        SparkConf()
        .setMaster(master)
        .setAppName("benchmarks: hand-written")
        .set("spark.ui.enabled", "false")
        .set("spark.driver.bindAddress", "127.0.0.1")
        .set("spark.driver.host", "127.0.0.1")
        .set("spark.python.unix.domain.socket.enabled", "true")
    )
    context = SparkContext(conf=conf)
    context.setLogLevel("ERROR")
    try:
        yield context
    finally:
        context.stop()
