"""Writes records to Kafka with kafka-python."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.jobs import kafka

if TYPE_CHECKING:
    import apache_beam as beam

    from benchmarks.jobs.work import Work


def build(pipeline: beam.Pipeline, work: Work) -> None:
    """Applies the job to `pipeline`."""
    kafka.build_write(pipeline, work, "kafka-python")


result = kafka.written_result
expected = kafka.written_expected
