"""A pipeline that makes Spark load what pipelines need; ``sparkdrain prepare`` runs it."""

from __future__ import annotations

import sys

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions

from sparkdrain.stages.batch.rehearsal import build
from sparkdrain.stages.cluster.class_data import JAVA_OPTIONS


def rehearse(java_options: str) -> None:
    """Run it in a new JVM with these options."""
    flags = [
        "--runner=sparkdrain.SparkDrainRunner",
        "--spark_master_url=local[2]",
        "--progress=off",
        f"--spark_conf={JAVA_OPTIONS}={java_options}",
    ]
    with beam.Pipeline(options=PipelineOptions(flags)) as pipeline:
        build(pipeline)


if __name__ == "__main__":
    rehearse(sys.argv[1])
