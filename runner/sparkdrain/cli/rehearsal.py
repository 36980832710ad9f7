"""A pipeline that makes Spark load what pipelines need; ``sparkdrain prepare`` runs it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions

from sparkdrain.stages.cluster.class_data import JAVA_OPTIONS

if TYPE_CHECKING:
    from collections.abc import Iterable


def rehearse(java_options: str) -> None:
    """Run it in a new JVM with these options."""
    flags = [
        "--runner=sparkdrain.SparkDrainRunner",
        "--spark_master_url=local[2]",
        "--progress=off",
        f"--spark_conf={JAVA_OPTIONS}={java_options}",
    ]
    with beam.Pipeline(options=PipelineOptions(flags)) as pipeline:
        pairs = pipeline | beam.Create([(key % 3, key) for key in range(9)])
        sums = pairs | beam.CombinePerKey(sum)
        _ = pairs | beam.GroupByKey() | beam.Map(_compare, beam.pvalue.AsDict(sums))


def _compare(group: tuple[int, Iterable[int]], sums: dict[int, int]) -> None:
    key, values = group
    assert sum(values) == sums[key]


if __name__ == "__main__":
    rehearse(sys.argv[1])
