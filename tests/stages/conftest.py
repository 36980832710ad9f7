"""Fixtures for tests that run pipelines on a real Spark in this process."""

from __future__ import annotations

from typing import TYPE_CHECKING

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions

if TYPE_CHECKING:
    from collections.abc import Callable

MASTER = "--spark_master_url=local[2]"


@pytest.fixture
def pipeline() -> Callable[..., beam.Pipeline]:
    """Makes a pipeline that will run on two local slots; takes further flags."""

    def make(*flags: str) -> beam.Pipeline:
        own = ["--runner=sparkdrain.SparkDrainRunner", MASTER, "--progress=off"]
        return beam.Pipeline(options=PipelineOptions([*own, *flags]))

    return make
