"""Writes records to Kafka exactly once, with confluent-kafka."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.jobs import kafka

if TYPE_CHECKING:
    import apache_beam as beam

    from benchmarks.jobs.work import Work


def build(pipeline: beam.Pipeline, work: Work) -> None:
    """Applies the job to `pipeline`."""
    kafka.build_once(pipeline, work, "confluent-kafka")


result = kafka.committed_result
expected = kafka.written_expected
