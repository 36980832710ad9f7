"""How the suites make their pipelines."""

from __future__ import annotations

from typing import Literal

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions

from sparkdrain import SparkDrainRunner

Switch = Literal["on", "off"]


def flags(compiled: Switch) -> list[str]:
    """The command line of a test pipeline."""
    return [
        "--runner=sparkdrain.SparkDrainRunner",
        "--spark_master_url=local[2]",
        f"--compiled_stages={compiled}",
        "--progress=off",
    ]


class OnSparkDrain:
    """Mixed into a suite of Beam's, makes its pipelines run here."""

    compiled: Switch = "on"

    def create_options(self) -> PipelineOptions:
        return PipelineOptions(flags(self.compiled))

    def create_pipeline(self, is_drain: bool = False) -> beam.Pipeline:
        if is_drain:
            msg = "pipelines cannot be drained yet"
            raise NotImplementedError(msg)
        return beam.Pipeline(SparkDrainRunner(), self.create_options())
