"""Fixtures for tests on a Spark cluster with two hosts."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from driver_session import stop_session
from spark_cluster import SparkCluster

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@pytest.fixture(scope="session")
def cluster() -> Iterator[SparkCluster]:
    """Two addresses of this machine, which Spark takes for two hosts, with one executor each.

    Executors run this Python, without this package.
    """
    before = os.environ.get("PYSPARK_PYTHON")
    os.environ["PYSPARK_PYTHON"] = sys.executable
    with SparkCluster(workers=2, cores=1) as running:
        yield running
        stop_session()
    if before is None:
        del os.environ["PYSPARK_PYTHON"]


@pytest.fixture(scope="session")
def on() -> Callable[..., beam.Pipeline]:
    """Makes a pipeline for a Spark master; takes further flags."""

    def make(master: str, *flags: str) -> beam.Pipeline:
        own = [
            "--runner=sparkdrain.SparkDrainRunner",
            f"--spark_master_url={master}",
            "--progress=off",
        ]
        return beam.Pipeline(options=PipelineOptions([*own, *flags]))

    return make
