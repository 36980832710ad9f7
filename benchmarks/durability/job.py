"""Runs the stream of ``gated`` until it is killed; started by ``arm``."""

from __future__ import annotations

import sys
from pathlib import Path

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions

from benchmarks.durability import gated


def main() -> None:
    home, (keys, changing, size) = Path(sys.argv[1]), map(int, sys.argv[2:5])
    options = [
        "--runner=sparkdrain.SparkDrainRunner",
        "--spark_master_url=local[2]",
        "--job_name=cost",
        "--progress=plain",
        f"--spark_conf=spark.local.dir={home}/local",
        *sys.argv[5:],
    ]
    pipeline = beam.Pipeline(options=PipelineOptions(options))
    gated.build(pipeline, keys, changing, size, home / "open", home / "counts")
    pipeline.run().wait_until_finish()


if __name__ == "__main__":
    main()
