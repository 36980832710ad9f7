"""The server as its users start it: a process, drivers on Spark, signals."""

from __future__ import annotations

import os
import re
import signal
import time

import apache_beam as beam
import grpc
import pytest
from apache_beam.options.pipeline_options import PipelineOptions

from tests.support.job_client import JobClient
from tests.support.server_process import server_process


def pipeline(endpoint: str, function, runner: str = "PortableRunner"):
    options = [f"--runner={runner}", f"--job_endpoint={endpoint}", "--spark_master_url=local[1]"]
    made = beam.Pipeline(options=PipelineOptions([*options, "--progress=off"]))
    made | beam.Create([1, 2]) | beam.Map(function)
    return made.run()


@pytest.mark.spark
def test_a_killed_driver_fails_its_job_and_the_server_runs_others_until_sigterm(tmp_path):
    out = tmp_path / "out"

    def sleeps(number: int) -> None:
        time.sleep(300)

    def writes(number: int) -> None:
        with open(f"{out}-{number}", "w") as file:
            file.write("seen")

    with (
        server_process("--max-jobs=2", "--warm=off") as (_process, endpoint),
        grpc.insecure_channel(endpoint) as channel,
    ):
        client = JobClient(channel)
        doomed = pipeline(endpoint, sleeps)
        text = client.until_message(doomed._job_id, "The job runs in the driver process")
        os.kill(int(re.search(r"\d+", text)[0]), signal.SIGKILL)
        good = pipeline(endpoint, writes, "SparkDrainRunner")
        with pytest.raises(RuntimeError, match="FAILED"):
            doomed.wait_until_finish()
        assert "was ended by the signal SIGKILL" in client.messages(doomed._job_id)[-1]
        assert good.wait_until_finish() == "DONE"
        assert (tmp_path / "out-1").read_text() == (tmp_path / "out-2").read_text() == "seen"
