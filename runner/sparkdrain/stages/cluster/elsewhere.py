"""Warns of what leads workers elsewhere than the program."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sparkdrain.graph.relative_paths import relative_paths
from sparkdrain.stages.cluster.context import is_local

if TYPE_CHECKING:
    from apache_beam.portability.api import beam_runner_api_pb2
    from pyspark import SparkContext


def lost_paths(context: SparkContext, pipeline: beam_runner_api_pb2.Pipeline) -> list[str]:
    """A warning for each relative path, unless the workers are in the program's directory."""
    if is_local(context):
        return []
    return [
        f"{step!r} has the relative path {path!r}. The executors of {context.master} look for it "
        "in their own directories, not in the program's: input may be missing or empty, and output "
        "stays there. Give an absolute path that all executors share, or a URL (s3://, gs://, "
        "hdfs://)."
        for path, step in sorted(relative_paths(pipeline).items())
    ]
