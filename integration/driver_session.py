"""The Spark session of this process."""

from __future__ import annotations

from pyspark import SparkContext


def stop_session() -> None:
    """Stop the session that the runner has started in this process, if it has."""
    active = SparkContext._active_spark_context
    if active is not None:
        active.stop()
