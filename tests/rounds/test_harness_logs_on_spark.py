"""What SDK harnesses of a stream log is among the messages of the job."""

from __future__ import annotations

import json
import logging
import os
import sys

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions

from tests.support.waiting import wait_until


def shout(_: bytes) -> None:
    logging.getLogger("mine").info("all is well")
    logging.getLogger("mine").error("it burns")


@pytest.mark.spark
def test_what_user_code_of_a_stream_logs_is_among_the_messages_with_its_step(caplog):
    config = {
        "command": f"{sys.executable} -m sparkdrain.cli.main worker",
        "env": {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    }
    flags = [
        "--runner=SparkDrainRunner",
        "--spark_master_url=local[1]",
        "--progress=off",
        "--environment_type=PROCESS",
        f"--environment_config={json.dumps(config)}",
        "--streaming",
    ]
    with caplog.at_level(logging.INFO):
        pipeline = beam.Pipeline(options=PipelineOptions(flags))
        _ = pipeline | beam.Impulse() | "Shout" >> beam.Map(shout)
        pipeline.run().wait_until_finish()

        def told() -> list[tuple[int, str]]:
            found = ((record.levelno, record.getMessage()) for record in caplog.records)
            return [record for record in found if record[1].startswith("Shout: ")]

        wait_until(lambda: len(told()) == 2)
    assert told() == [(logging.INFO, "Shout: all is well"), (logging.ERROR, "Shout: it burns")]
