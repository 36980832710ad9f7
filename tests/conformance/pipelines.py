"""How the suites make their pipelines."""

from __future__ import annotations

import time
import uuid
from typing import Final, Literal

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions

from sparkdrain import SparkDrainRunner
from sparkdrain.coordination.address import parse
from sparkdrain.coordination.stores import STORES
from sparkdrain.drain import records
from sparkdrain.drain.notification import DrainNotification

Switch = Literal["on", "off"]
_STORE: Final = "memory:conformance"


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

    def create_options(self, *more: str) -> PipelineOptions:
        return PipelineOptions([*flags(self.compiled), *more])

    def create_pipeline(self, is_drain: bool = False) -> beam.Pipeline:
        more = drained_from_the_start() if is_drain else []
        return beam.Pipeline(SparkDrainRunner(), self.create_options(*more))


def drained_from_the_start() -> list[str]:
    """Options of a pipeline that somebody has asked to drain before it begins."""
    run_id = str(uuid.uuid4())
    store = STORES.open(parse(_STORE))
    records.write(store, DrainNotification.create(run_id, time.time_ns() // 1000))
    store.close()
    return ["--streaming", f"--run_id={run_id}", f"--metadata_store={_STORE}"]
