"""Samples of elements on Spark, from harnesses that are processes: among the job's messages."""

from __future__ import annotations

import gc
import json
import logging
import os
import sys

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.worker.data_sampler import OutputSampler

from tests.support.waiting import wait_until

pytestmark = [pytest.mark.spark, pytest.mark.slow]

SECONDS = 240


def _options(*flags):
    config = {
        "command": f"{sys.executable} -m sparkdrain.cli.main worker",
        "env": {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    }
    return PipelineOptions(
        [
            "--runner=SparkDrainRunner",
            "--spark_master_url=local[1]",
            "--progress=off",
            "--environment_type=PROCESS",
            f"--environment_config={json.dumps(config)}",
            *flags,
        ]
    )


def _awaiting(element):
    """Waits, in the harness, until the element is a sample: Python takes one each half second."""

    def is_sampled():
        samplers = [one for one in gc.get_objects() if isinstance(one, OutputSampler)]
        return any(sample.value == element for one in samplers for sample in list(one._samples))

    wait_until(is_sampled, SECONDS)
    return element


@pytest.mark.parametrize("kind", [[], ["--streaming"]])
def test_samples_are_among_the_messages_of_a_job(caplog, kind):
    options = _options("--experiments=enable_data_sampling", *kind)
    with caplog.at_level(logging.INFO):
        pipeline = beam.Pipeline(options=options)
        price = "Price" >> beam.Map(lambda cents: f"{cents / 100:.2f} EUR")
        _ = pipeline | beam.Create([150]) | price | beam.Map(_awaiting)
        pipeline.run().wait_until_finish()
        wait_until(lambda: "Sample of Price: 1.50 EUR" in caplog.messages)


@pytest.mark.parametrize("kind", [[], ["--streaming"]])
def test_the_error_of_a_job_names_the_element_that_user_code_has_failed_on(kind):
    options = _options("--experiments=enable_always_on_exception_sampling", *kind)
    pipeline = beam.Pipeline(options=options)
    _ = pipeline | beam.Create([5, 0]) | "Divide" >> beam.Map(lambda n: 1 // n)
    with pytest.raises(
        RuntimeError,
        match=r"(?s)ZeroDivisionError.*Divide.*It was at an element of Create/Map\(decode\): 0",
    ):
        pipeline.run().wait_until_finish()
