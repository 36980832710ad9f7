"""The Spark that the hand-written jobs run on."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark import SparkConf, SparkContext


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
